// Weights that no kernel takes as they are stored become float32 once, at load:
//   y = Conv(x, DequantizeLinear(const W, const s, const z))  ->  y = Conv(x, const W_real)
// for readers that pack constants (Conv, ConvTranspose, MatMul, Gemm), and for small results whoever reads them. Others
// stay as they are in memory and are dequantized by each run. Fills (ConstantOfShape) likewise.
#include <algorithm>

#include "provider/cpu/common/constant_expression.h"
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

constexpr int64_t kSmallElements = 4096;  // 16 KB of float32: as cheap as the step of each run that it saves

bool Packs(const Node* node) {
  return node && node->domain().empty() &&
         (node->op_type() == "Conv" || node->op_type() == "ConvTranspose" || node->op_type() == "MatMul" ||
          node->op_type() == "Gemm");
}

bool IsWorthIt(const GraphValue* result) {
  if (result->uses().empty() || !result->type().has_static_shape()) return false;
  return Product(*result->type().shape).value() <= kSmallElements ||
         std::any_of(result->uses().begin(), result->uses().end(), [](const Use& u) { return Packs(u.node); });
}

Result<int> Run(Graph& graph, const void* pass_context) {
  const auto& context = *static_cast<const CpuPassContext*>(pass_context);
  int changes = 0;
  for (Node* node : graph.nodes()) {
    GraphValue* result = node->output(0);
    if (!result || !ConstantExpression(result, context.config) || !IsWorthIt(result)) continue;
    QUERN_ASSIGN_OR_RETURN(Tensor content, ComputeConstant(*node, {&context.config, context.executor}));
    graph.TurnIntoConstant(result, std::move(content));
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kFoldDequantized = {"cpu_fold_dequantized", "weights that kernels need as float32", Run,
                                      /*on_subgraphs=*/true, /*required=*/true};

}  // namespace quern::cpu
