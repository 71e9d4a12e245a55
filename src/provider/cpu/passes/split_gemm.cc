// A Gemm whose C its kernel does not take is a product and a sum:
//   y = Gemm(a, b, c) {alpha, beta}   ->   y = Add(Gemm(a, b) {alpha}, Mul(c, const beta))
// The kernel takes a constant row, and a whole matrix with beta 1.
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

bool TakesC(const Node& gemm) {
  const GraphValue* c = gemm.input(2);
  if (!c) return true;
  const Dims &y = *gemm.output(0)->type().shape, &d = *c->type().shape;
  return IsConstantRow(*c, y) || (d == y && gemm.GetFloat("beta", 1) == 1);
}

GraphValue* Add(Graph& graph, Node* before, NodeSpec spec, ValueType type) {
  Node* node = graph.AddNode(std::move(spec), before);
  node->output(0)->set_type(std::move(type));
  return node->output(0);
}

void Split(Graph& graph, Node* gemm) {
  const GraphValue* y = gemm->output(0);
  const auto name = [&](const char* what) { return graph.UniqueName(y->name() + what); };
  NodeSpec product{.name = gemm->name(), .op_type = "Gemm", .opset = 13};
  product.inputs = {gemm->input(0), gemm->input(1)};
  product.outputs = {name("_product")};
  for (const char* attribute : {"alpha", "transA", "transB"}) {
    const auto it = gemm->attributes().find(attribute);
    if (it != gemm->attributes().end()) product.attributes.insert(*it);
  }
  GraphValue* sum = Add(graph, gemm, std::move(product), y->type());
  GraphValue* c = gemm->input(2);
  if (const float beta = gemm->GetFloat("beta", 1); beta != 1) {
    GraphValue* factor = graph.AddConstant(name("_beta"), Tensor::Scalar(beta));
    factor->set_type(ValueType::Tensor(DType::kF32, Dims()));
    c = Add(graph, gemm, {.op_type = "Mul", .opset = 14, .inputs = {c, factor}, .outputs = {name("_c")}}, c->type());
  }
  sum = Add(graph, gemm, {.op_type = "Add", .opset = 14, .inputs = {sum, c}, .outputs = {name("_sum")}}, y->type());
  graph.ReplaceAllUses(gemm->output(0), sum);
  RemoveIfDead(graph, gemm);
}

Result<int> Run(Graph& graph, const void*) {
  int changes = 0;
  for (Node* node : graph.nodes()) {
    if (!node->Is("Gemm") || TakesC(*node)) continue;
    Split(graph, node);
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kSplitGemm = {"cpu_split_gemm", "the sum of a Gemm where its kernel has none", Run,
                                /*on_subgraphs=*/true, /*required=*/true};

}  // namespace quern::cpu
