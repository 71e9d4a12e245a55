// Convolutions and pools become channels-last operators of this provider between two transposes:
//   y = Conv(x, w, b)   ->   y = Transpose(quern.cpu.Conv(Transpose(x), w, b))
// and MaxPool, AveragePool, LpPool and their global forms likewise; the other layout passes move and cancel the
// transposes. Weights keep their ONNX order (they are packed at load).
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

bool IsWindow(const Node& node) {
  return node.Is("Conv") || node.Is("MaxPool") || node.Is("AveragePool") || node.Is("LpPool") ||
         node.Is("GlobalAveragePool") || node.Is("GlobalMaxPool") || node.Is("GlobalLpPool");
}

Result<int> Run(Graph& graph, const void* pass_context) {
  const auto& context = *static_cast<const CpuPassContext*>(pass_context);
  int changes = 0;
  for (Node* node : graph.nodes()) {
    if (!IsWindow(*node)) continue;
    const CpuOp* op = FindCpuOp(kCpuDomain, node->op_type());
    if (!op || (op->reject && !op->reject(*node, context.config).empty())) continue;
    ReplaceChannelsLast(graph, node, node->op_type(), node->inputs(), node->output(0)->type().dtype);
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kConvertWindows = {"cpu_convert_windows", "convolutions and pools to channels-last form", Run,
                                     /*on_subgraphs=*/true, /*required=*/true};

}  // namespace quern::cpu
