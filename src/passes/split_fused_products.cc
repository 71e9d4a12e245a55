// FusedMatMul and FusedGemm of com.microsoft, which onnxruntime's optimizer writes, become what they stand for:
//   %y = com.microsoft::FusedMatMul(%a, %b) {alpha = 0.125, transB = 1}
// ->
//   %t = Transpose(%b)   %p = MatMul(%a, %t)   %y = Mul(%p, 0.125)
// and
//   %y = com.microsoft::FusedGemm(%a, %b, %c) {activation = "Relu"}
// ->
//   %g = Gemm(%a, %b, %c)   %y = Relu(%g)
// so that other passes find attention and the like in them.
#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "graph/rewriter.h"
#include "passes/inserter.h"
#include "passes/passes.h"

namespace quern {
namespace {

constexpr const char* kDomain = "com.microsoft";
constexpr int kSince = 11;  // the operators in the form that is made of them; some activations came later

bool IsFloatOfRank(const GraphValue* v) {
  const DType dtype = v->type().dtype;
  return (dtype == DType::kF32 || dtype == DType::kF64) && v->type().has_rank();
}

// Operand `i` of a FusedMatMul as MatMul takes it: its first dimension behind the batch if one flag says so, its last
// two swapped if the other does.
GraphValue* Arranged(Inserter& inserter, const Node& n, int i, const char* batch, const char* swap, int opset) {
  GraphValue* v = n.input(i);
  const Dims& from = *v->type().shape;
  const size_t rank = from.size();
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (n.GetInt(batch, 0) != 0 && rank > 2) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (n.GetInt(swap, 0) != 0 && rank > 1) std::swap(order[rank - 1], order[rank - 2]);
  if (std::is_sorted(order.begin(), order.end())) return v;
  Dims to;
  for (const int64_t d : order) to.push_back(from[static_cast<size_t>(d)]);
  return inserter.Add("Transpose", opset, {v}, ValueType::Tensor(v->type().dtype, std::move(to)), {{"perm", order}});
}

Result<bool> SplitMatMul(Graph& graph, Node* n, int opset) {
  Inserter inserter(graph, n);
  GraphValue* a = Arranged(inserter, *n, 0, "transBatchA", "transA", opset);
  GraphValue* b = Arranged(inserter, *n, 1, "transBatchB", "transB", opset);
  const float alpha = n->GetFloat("alpha", 1);
  if (alpha == 1) {
    ReplaceNode(graph, n, {.name = n->name(), .op_type = "MatMul", .opset = opset, .inputs = {a, b}});
    return true;
  }
  GraphValue* product = inserter.Add("MatMul", opset, {a, b}, n->output(0)->type());
  GraphValue* number = inserter.Number(n->output(0)->type().dtype, static_cast<double>(alpha));
  ReplaceNode(graph, n, {.name = n->name(), .op_type = "Mul", .opset = opset, .inputs = {product, number}});
  return true;
}

// An activation whose parameters, `activation_alpha` and so on, are attributes with the same defaults.
struct Plain {
  const char* name;
  int since;
  std::array<const char*, 2> parameters = {};
};
constexpr Plain kPlain[] = {{"Relu", 6},
                            {"Tanh", 6},
                            {"Sigmoid", 6},
                            {"Softplus", 1},
                            {"Softsign", 1},
                            {"LeakyRelu", 6, {"alpha"}},
                            {"ThresholdedRelu", 10, {"alpha"}},
                            {"Elu", 6, {"alpha"}},
                            {"Celu", 12, {"alpha"}},
                            {"Selu", 6, {"alpha", "gamma"}},
                            {"HardSigmoid", 6, {"alpha", "beta"}},
                            {"HardSwish", 14}};

Result<bool> SplitGemm(Graph& graph, Node* n, int opset) {
  const std::string name = n->GetString("activation", "");
  const auto* activation =
      std::find_if(std::begin(kPlain), std::end(kPlain), [&](const Plain& p) { return p.name == name; });
  if (!name.empty() && (activation == std::end(kPlain) || opset < activation->since)) return false;
  Attributes own;
  for (const char* attribute : {"alpha", "beta", "transA", "transB"}) {
    if (const Attribute* given = n->FindAnyAttribute(attribute)) own[attribute] = *given;
  }
  if (name.empty()) {
    ReplaceNode(graph, n,
                {.name = n->name(), .op_type = "Gemm", .opset = opset, .inputs = n->inputs(), .attributes = own});
    return true;
  }
  Attributes parameters;
  for (const char* p : activation->parameters) {
    if (!p) continue;
    if (const Attribute* given = n->FindAnyAttribute(std::string("activation_") + p)) parameters[p] = *given;
  }
  GraphValue* sum = Inserter(graph, n).Add("Gemm", opset, n->inputs(), n->output(0)->type(), std::move(own));
  ReplaceNode(
      graph, n,
      {.name = n->name(), .op_type = name, .opset = opset, .inputs = {sum}, .attributes = std::move(parameters)});
  return true;
}

Result<bool> Split(Graph& graph, Node* n) {
  const bool product = n->Is("FusedMatMul", kDomain);
  if (!product && !n->Is("FusedGemm", kDomain)) return false;
  const int opset = graph.opset("");
  if (opset < kSince || !IsFloatOfRank(n->input(0)) || !IsFloatOfRank(n->input(1))) return false;
  return product ? SplitMatMul(graph, n, opset) : SplitGemm(graph, n, opset);
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Split); }

}  // namespace

extern const Pass kSplitFusedProducts = {"split_fused_products",
                                         "products that onnxruntime has fused, as standard operators", Run};

}  // namespace quern
