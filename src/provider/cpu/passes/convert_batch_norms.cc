// BatchNormalization in inference, of float32 with constant parameters, becomes this provider's ChannelScale between
// two transposes, which other passes move and cancel; what follows moves into it as into a product:
//   y = BatchNormalization(x, s, b, mean, var)  ->  y = Transpose(quern.cpu.ChannelScale(Transpose(x), -, b', -, s'))
//   s' = s / sqrt(var + epsilon), b' = b - mean * s'
#include <cmath>

#include "provider/cpu/common/constants.h"
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

// The four parameters, or nothing when they are of another kind.
std::optional<std::array<const Tensor*, 4>> Parameters(const Node& norm) {
  std::array<const Tensor*, 4> p{};
  for (int i = 0; i < 4; ++i) {
    const Tensor* t = ConstantTensor(norm.input(i + 1));
    if (!t || t->dtype() != DType::kF32 || !t->is_contiguous() || t->rank() != 1) return std::nullopt;
    p[static_cast<size_t>(i)] = t;
  }
  return p;
}

Result<bool> Convert(Graph& graph, Node* norm, const CpuConfig& config) {
  if (!norm->Is("BatchNormalization") || norm->input(0)->type().dtype != DType::kF32 ||
      !norm->input(0)->type().has_rank() || norm->input(0)->type().rank() < 2) {
    return false;
  }
  const CpuOp* op = FindCpuOp("", "BatchNormalization");
  if (!op->reject(*norm, config).empty()) return false;
  const auto p = Parameters(*norm);
  if (!p) return false;
  const int64_t channels = (*p)[0]->num_elements();
  const float epsilon = norm->GetFloat("epsilon", 1e-5f);
  Tensor scale = Tensor::Allocate(DType::kF32, Shape{channels}).value(), bias = scale.Clone().value();
  for (int64_t c = 0; c < channels; ++c) {
    const auto of = [&](size_t i) { return static_cast<double>((*p)[i]->data<float>()[c]); };
    const double factor = of(0) / std::sqrt(of(3) + static_cast<double>(epsilon));
    scale.data<float>()[c] = static_cast<float>(factor);
    bias.data<float>()[c] = static_cast<float>(of(1) - of(2) * factor);
  }
  const auto constant = [&](const char* what, Tensor t) {
    return graph.AddConstant(graph.UniqueName(norm->output(0)->name() + what), std::move(t));
  };
  GraphValue *s = constant("_scale", std::move(scale)), *b = constant("_bias", std::move(bias));
  Node* made = ReplaceChannelsLast(graph, norm, "ChannelScale", {norm->input(0), nullptr, b, nullptr, s}, DType::kF32);
  for (const char* attribute : {"epsilon", "momentum", "training_mode", "spatial"}) made->RemoveAttribute(attribute);
  return true;
}

Result<int> Run(Graph& graph, const void* pass_context) {
  const auto& context = *static_cast<const CpuPassContext*>(pass_context);
  int changes = 0;
  for (Node* node : graph.nodes()) {
    QUERN_ASSIGN_OR_RETURN(const bool converted, Convert(graph, node, context.config));
    changes += converted;
  }
  return changes;
}

}  // namespace

extern const Pass kConvertBatchNorms = {"cpu_convert_batch_norms", "batch normalizations to scales of channels", Run};

}  // namespace quern::cpu
