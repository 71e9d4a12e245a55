// Products with constant weights become this provider's MatMul, which takes a bias, a residual and an activation:
//   y = MatMul(a, W)              ->  y = quern.cpu.MatMul(a, W)
//   y = MatMul(a, Transpose(W))   ->  y = quern.cpu.MatMul(a, W) {transB = 1}
//   y = Gemm(a, W, c) with alpha = beta = 1, no transA, c a row or absent
//                                 ->  y = quern.cpu.MatMul(a, W, c) {transB}
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

// A Transpose of constant weights, which packing reads either way.
Node* TransposedWeights(const Node& product) {
  GraphValue* w = product.input(1);
  Node* transpose = w ? w->producer() : nullptr;
  return TransposePermutation(transpose) == Permutation{1, 0} && ConstantTensor(transpose->input(0)) ? transpose
                                                                                                     : nullptr;
}

Result<int> Run(Graph& graph, const void* pass_context) {
  const auto& context = *static_cast<const CpuPassContext*>(pass_context);
  int changes = 0;
  const CpuOp* op = FindCpuOp(kCpuDomain, "MatMul");
  if (!op) return 0;
  for (Node* node : graph.nodes()) {
    const bool gemm = node->Is("Gemm");
    if (!gemm && !node->Is("MatMul")) continue;
    Node* transpose = gemm ? nullptr : TransposedWeights(*node);
    GraphValue* weights = transpose ? transpose->input(0) : node->input(1);
    if (!ConstantTensor(weights) || weights->type().rank() != 2 || !node->output(0)->type().shape) continue;
    if (op->reject && !op->reject(*node, context.config).empty()) continue;
    std::vector<GraphValue*> inputs = {node->input(0), weights};
    if (gemm) {
      if (node->GetInt("transA", 0) || node->GetFloat("alpha", 1) != 1 || node->GetFloat("beta", 1) != 1) continue;
      if (GraphValue* c = node->input(2)) {
        if (!IsConstantRow(*c, *node->output(0)->type().shape)) continue;
        inputs.push_back(c);
      }
    }
    Node* product = AddInternal(graph, "MatMul", *node, inputs, node->output(0)->type(), node);
    product->SetAttribute("transB", gemm ? node->GetInt("transB", 0) : int64_t{transpose != nullptr});
    graph.ReplaceAllUses(node->output(0), product->output(0));
    graph.Remove(node);
    if (product->output(0)->type().dtype == DType::kF64)
      product->SetAttribute("y_type", static_cast<int64_t>(DType::kF64));
    if (transpose) RemoveIfDead(graph, transpose);
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kConvertProducts = {"cpu_convert_products", "MatMul and Gemm with constant weights to fusable form",
                                      Run};

}  // namespace quern::cpu
