// A Gemm of which its kernel does not take all is a product and what follows it:
//   y = Gemm(a, b, c) {alpha, beta}   ->   y = Add(Gemm(a, b) {alpha}, Mul(c, const beta))
// The kernel takes alpha and a constant row, or a whole matrix with beta 1; of float64 the product alone:
//   y = Gemm(a, b, c) {alpha, beta}   ->   y = Add(Mul(Gemm(a, b), const alpha), Mul(c, const beta))
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

bool IsDouble(const Node& gemm) { return gemm.output(0)->type().dtype == DType::kF64; }

bool IsTaken(const Node& gemm) {
  const GraphValue* c = gemm.input(2);
  if (IsDouble(gemm)) return !c && gemm.GetFloat("alpha", 1) == 1;
  if (!c) return true;
  const Dims &y = *gemm.output(0)->type().shape, &d = *c->type().shape;
  return IsConstantRow(*c, y) || (d == y && gemm.GetFloat("beta", 1) == 1);
}

class Splitter {
 public:
  Splitter(Graph& graph, Node* gemm) : graph_(graph), gemm_(gemm) {}

  void Run() {
    const GraphValue* y = gemm_->output(0);
    NodeSpec product{.name = gemm_->name(), .op_type = "Gemm", .opset = 13};
    product.inputs = {gemm_->input(0), gemm_->input(1)};
    product.outputs = {Name("_product")};
    for (const char* attribute : {"alpha", "transA", "transB"}) {
      const auto it = gemm_->attributes().find(attribute);
      if (it != gemm_->attributes().end()) product.attributes.insert(*it);
    }
    if (IsDouble(*gemm_)) product.attributes.erase("alpha");
    GraphValue* result = Add(std::move(product), y->type());
    if (IsDouble(*gemm_)) result = Times(result, gemm_->GetFloat("alpha", 1), "_alpha");
    if (gemm_->input(2)) {
      GraphValue* c = Times(gemm_->input(2), gemm_->GetFloat("beta", 1), "_beta");
      result = Add({.op_type = "Add", .opset = 14, .inputs = {result, c}, .outputs = {Name("_sum")}}, y->type());
    }
    graph_.ReplaceAllUses(gemm_->output(0), result);
    RemoveIfDead(graph_, gemm_);
  }

 private:
  std::string Name(const std::string& what) { return graph_.UniqueName(gemm_->output(0)->name() + what); }
  GraphValue* Add(NodeSpec spec, ValueType type) {
    Node* node = graph_.AddNode(std::move(spec), gemm_);
    node->output(0)->set_type(std::move(type));
    return node->output(0);
  }
  // x * factor, where that is not x.
  GraphValue* Times(GraphValue* x, float factor, const std::string& what) {
    if (factor == 1) return x;
    GraphValue* constant = graph_.AddConstant(
        Name(what), IsDouble(*gemm_) ? Tensor::Scalar(static_cast<double>(factor)) : Tensor::Scalar(factor));
    return Add({.op_type = "Mul", .opset = 14, .inputs = {x, constant}, .outputs = {Name(what + "_times")}}, x->type());
  }

  Graph& graph_;
  Node* gemm_;
};

Result<int> Run(Graph& graph, const void*) {
  int changes = 0;
  for (Node* node : graph.nodes()) {
    if (!node->Is("Gemm") || IsTaken(*node)) continue;
    Splitter(graph, node).Run();
    ++changes;
  }
  return changes;
}

}  // namespace

extern const Pass kSplitGemm = {"cpu_split_gemm", "the factors and the sum of a Gemm where its kernel has none", Run,
                                /*on_subgraphs=*/true, /*required=*/true};

}  // namespace quern::cpu
