// BatchNormalization in inference, of float32 with constant parameters, behind a transpose to channels first becomes
// this provider's ChannelScale between two transposes, which other passes move and cancel; what follows moves into it
// as into a product:
//   y = BatchNormalization(Transpose(x), s, b, mean, var)
//       ->  y = Transpose(quern.cpu.ChannelScale(Transpose(Transpose(x)), -, b', -, s'))
// Of rank 2, where both forms are one, any does. Others stay as they are (see split_batch_norms.cc).
#include "provider/cpu/passes/edit.h"
#include "provider/cpu/passes/folded_batch_norm.h"

namespace quern::cpu {
namespace {

// Whether the channels of an input are last, or were so before a transpose.
bool HasChannelsLast(const GraphValue& x) {
  if (!x.type().has_rank()) return false;
  const int rank = x.type().rank();
  return rank == 2 || TransposePermutation(x.producer()) == ToChannelsFirst(rank);
}

bool Convert(Graph& graph, Node* norm, const CpuConfig& config) {
  if (!norm->Is("BatchNormalization") || !HasChannelsLast(*norm->input(0))) return false;
  std::optional<FoldedBatchNorm> folded = FoldBatchNorm(*norm, config);
  if (!folded) return false;
  const auto constant = [&](const char* what, Tensor t) {
    return graph.AddConstant(graph.UniqueName(norm->output(0)->name() + what), std::move(t));
  };
  GraphValue *s = constant("_scale", std::move(folded->scale)), *b = constant("_bias", std::move(folded->bias));
  Node* made = ReplaceChannelsLast(graph, norm, "ChannelScale", {norm->input(0), nullptr, b, nullptr, s}, DType::kF32);
  for (const char* attribute : {"epsilon", "momentum", "training_mode", "spatial"}) made->RemoveAttribute(attribute);
  return true;
}

Result<int> Run(Graph& graph, const void* pass_context) {
  const auto& context = *static_cast<const CpuPassContext*>(pass_context);
  int changes = 0;
  for (Node* node : graph.nodes()) changes += Convert(graph, node, context.config);
  return changes;
}

}  // namespace

extern const Pass kConvertBatchNorms = {"cpu_convert_batch_norms", "batch normalizations to scales of channels", Run};

}  // namespace quern::cpu
