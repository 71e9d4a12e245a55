// A product with constant weights of 4-bit levels (bitsandbytes) takes them as float32, once at load:
//   y = com.microsoft.MatMulBnb4(a, const B, const absmax)  ->  y = quern.cpu.MatMul(a, const W) {transB = 1}
// W: [N, K], made while it is packed and not kept.
#include "ops/common/bnb4_weight.h"
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

Result<int> Run(Graph& graph, const void* pass_context) {
  const auto& context = *static_cast<const CpuPassContext*>(pass_context);
  int changes = 0;
  const CpuOp* op = FindCpuOp("com.microsoft", "MatMulBnb4");
  for (Node* node : graph.nodes()) {
    if (node->domain() != "com.microsoft" || node->op_type() != "MatMulBnb4") continue;
    if (!op->reject(*node, context.config).empty()) continue;
    QUERN_ASSIGN_OR_RETURN(const Bnb4Weight w, ReadBnb4Weight(*node));
    QUERN_ASSIGN_OR_RETURN(const Tensor codes, ConstantTensor(node->input(1))->Contiguous());
    QUERN_ASSIGN_OR_RETURN(const Tensor absmax, ConstantTensor(node->input(2))->Contiguous());
    const auto fill = [w, codes, absmax](void* to) {
      DequantizeBnb4(w, codes.data<uint8_t>(), absmax.data<float>(), static_cast<float*>(to));
    };
    QUERN_ASSIGN_OR_RETURN(Tensor weight, Tensor::Computed(DType::kF32, Shape{w.n, w.k}, fill));
    GraphValue* constant = graph.AddConstant(graph.UniqueName(node->input(1)->name() + "_f32"), std::move(weight));
    Node* made = AddInternal(graph, "MatMul", *node, {node->input(0), constant}, node->output(0)->type(), node);
    made->SetAttribute("transB", int64_t{1});
    graph.ReplaceAllUses(node->output(0), made->output(0));
    RemoveIfDead(graph, node);
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kMultiplyLevels = {"cpu_multiply_levels", "products with weights of 4-bit levels", Run,
                                     /*on_subgraphs=*/true, /*required=*/true};

}  // namespace quern::cpu
