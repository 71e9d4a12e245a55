// What exporters write around MatMulInteger moves into its epilogue:
//   y = Mul(Cast(MatMulInteger(a, w, za, zw)), Mul(sa, sw))  ->  y = MatMulIntegerToFloat(a, w, sa, sw, za, zw)
//   Add(y, c), c a constant of each column                    ->  its bias
// where sa is one number and sw a constant, one or one for each column. The same bits: factors are multiplied first.
#include "graph/matcher.h"
#include "provider/cpu/passes/edit.h"

namespace quern::cpu {
namespace {

constexpr char kToFloat[] = "MatMulIntegerToFloat";
constexpr char kMicrosoft[] = "com.microsoft";

bool IsFloat(const GraphValue& v) { return v.type().dtype == DType::kF32 && v.type().shape; }
bool IsOneNumber(const GraphValue& v) { return IsFloat(v) && Product(*v.type().shape).is_constant(1); }
bool CastsToFloat(const Node& node) { return node.output(0)->type().dtype == DType::kF32; }

bool Rewrite(Graph& graph, Node* node, const Match& m, const CpuConfig& config) {
  const Node& product = *m.node("product");
  GraphValue* y = node->output(0);
  if (!y->type().shape || !product.output(0)->type().shape || *y->type().shape != *product.output(0)->type().shape) {
    return false;
  }
  const GraphValue &sa = *m.value("sa"), &sw = *m.value("sw");
  const int rank = y->type().rank();
  if (rank < 1 || sa.type().rank() > rank || !IsFloat(sw) || sw.type().rank() > rank) return false;
  if (!IsOneNumber(sw) && !IsConstantRow(sw, *y->type().shape)) return false;
  Node* made = AddProductToFloat(
      graph, *node,
      {product.input(0), product.input(1), m.value("sa"), m.value("sw"), product.input(2), product.input(3)}, y->type(),
      node);
  if (!FindCpuOp(kMicrosoft, kToFloat)->reject(*made, config).empty()) {
    graph.Remove(made);
    return false;
  }
  graph.ReplaceAllUses(y, made->output(0));
  RemoveIfDead(graph, node);
  return true;
}

bool AddBias(Graph& graph, Node* node) {
  for (int i = 0; i < 2; ++i) {
    Node* product = node->input(i)->producer();
    GraphValue* bias = node->input(1 - i);
    if (!product || !product->Is(kToFloat, kMicrosoft) || product->input(6) || !OnlyUsedBy(product->output(0), node)) {
      continue;
    }
    const GraphValue* y = product->output(0);
    if (!y->type().shape || !IsFloat(*bias) || !IsConstantRow(*bias, *y->type().shape)) continue;
    std::vector<GraphValue*> inputs = product->inputs();
    inputs.resize(6, nullptr);
    inputs.push_back(bias);
    Node* made = AddProductToFloat(graph, *product, std::move(inputs), y->type(), node);
    graph.ReplaceAllUses(node->output(0), made->output(0));
    RemoveIfDead(graph, node);
    return true;
  }
  return false;
}

Result<int> Run(Graph& graph, const void* pass_context) {
  static const Pattern kPattern =
      Pattern::Op(
          "Mul",
          {Pattern::Op(
               "Cast",
               {Pattern::Op("MatMulInteger", {Pattern::Any(), Pattern::Any()}).As("product").MoreInputs().SingleUse()})
               .Where(CastsToFloat)
               .SingleUse(),
           Pattern::Op("Mul", {Pattern::Any("sa").WhereValue(IsOneNumber), Pattern::Constant("sw")}).Commutative()})
          .Commutative();
  const auto& context = *static_cast<const CpuPassContext*>(pass_context);
  int changes = 0;
  for (Node* node : graph.nodes()) {
    if (const std::optional<Match> m = kPattern.MatchNode(node)) {
      changes += Rewrite(graph, node, *m, context.config);
    } else if (node->Is("Add")) {
      changes += AddBias(graph, node);
    }
  }
  return changes;
}

}  // namespace

extern const Pass kFuseDynamicProducts = {"cpu_fuse_dynamic_products", "scales and bias of integer products", Run};

}  // namespace quern::cpu
