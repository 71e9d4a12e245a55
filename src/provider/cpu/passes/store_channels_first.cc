// Products of a convolution go to their places channels first, where nothing else reads them:
//   y = Transpose(quern.cpu.Conv(x, w, b), [0, n-1, 1, ..., n-2])  ->  y = quern.cpu.Conv(x, w, b) {channels_first}
// Results of other algorithms than the direct one are stored channels last, and transposed.
#include "kernels/convolution.h"
#include "provider/cpu/common/conv_problem.h"
#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

bool IsDirect(const Node& conv, const CpuConfig& config) {
  const Result<ConvSource> source = ReadConvWithWeights(conv, config);
  return source.ok() && kernels::Convolution::AlgorithmFor(source->problem, source->flat, SelectOptionsFor(config),
                                                           source->weights) == kernels::ConvAlgorithm::kDirect;
}

Result<int> Run(Graph& graph, const void* pass_context) {
  const CpuConfig& config = static_cast<const CpuPassContext*>(pass_context)->config;
  int changes = 0;
  for (Node* node : graph.nodes()) {
    const std::optional<Permutation> p = TransposePermutation(node);
    if (!p || *p != ToChannelsFirst(static_cast<int>(p->size()))) continue;
    GraphValue* y = node->input(0);
    Node* conv = y->producer();
    if (!conv || !conv->Is("Conv", kCpuDomain) || !OnlyUsedBy(y, node) || StoresChannelsFirst(*conv) ||
        !IsDirect(*conv, config)) {
      continue;
    }
    conv->SetAttribute("channels_first", int64_t{1});
    y->set_type(node->output(0)->type());
    graph.ReplaceAllUses(node->output(0), y);
    graph.Remove(node);
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kStoreChannelsFirst = {"cpu_store_channels_first", "convolutions store channels first", Run};

}  // namespace quern::cpu
