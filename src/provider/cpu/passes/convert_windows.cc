// Convolutions and pools become channels-last operators of this provider between two transposes:
//   y = Conv(x, w, b)   ->   y = Transpose(quern.cpu.Conv(Transpose(x), w, b))
// and MaxPool, AveragePool, LpPool, their global forms and GridSample likewise; the other layout passes move and cancel
// the transposes. Weights keep their ONNX order (they are packed at load).
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

bool IsWindow(const Node& node) {
  return node.Is("Conv") || node.Is("MaxPool") || node.Is("AveragePool") || node.Is("LpPool") ||
         node.Is("GlobalAveragePool") || node.Is("GlobalMaxPool") || node.Is("GlobalLpPool");
}

// A GridSample whose positions read vectors of channels faster than each channel gathers what they read, transposes
// included: one output gathered takes as long as 16 elements transposed, so there may be 8 times as many pixels.
bool IsWideGridSample(const Node& node) {
  constexpr int64_t kManyChannels = 16, kFewTimes = 8;
  if (!node.Is("GridSample") || !node.input(0)->type().shape || !node.input(1)->type().shape) return false;
  const Dims &x = *node.input(0)->type().shape, &grid = *node.input(1)->type().shape;
  if (x.size() < 3 || grid.size() != x.size() || !node.output(0)->type().shape) return false;
  if (!x[1].is_constant() || x[1].value() < kManyChannels) return false;
  double pixels = 1, positions = kFewTimes;
  for (size_t d = 2; d < x.size(); ++d) {
    if (!x[d].is_constant() || !grid[d - 1].is_constant()) return true;
    pixels *= static_cast<double>(x[d].value());
    positions *= static_cast<double>(grid[d - 1].value());
  }
  return pixels <= positions;
}

Result<int> Run(Graph& graph, const void* pass_context) {
  const auto& context = *static_cast<const CpuPassContext*>(pass_context);
  int changes = 0;
  for (Node* node : graph.nodes()) {
    if (!IsWindow(*node) && !IsWideGridSample(*node)) continue;
    const CpuOp* op = FindCpuOp(kCpuDomain, node->op_type());
    if (!op || (op->reject && !op->reject(*node, context.config).empty())) continue;
    ReplaceChannelsLast(graph, node, node->op_type(), node->inputs(), node->output(0)->type().dtype);
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kConvertWindows = {"cpu_convert_windows",
                                     "convolutions, pools and wide GridSamples to channels-last form", Run,
                                     /*on_subgraphs=*/true, /*required=*/true};

}  // namespace quern::cpu
