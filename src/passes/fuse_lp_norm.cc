// A quotient of a value and its norm along one dimension becomes one node:
//   %n = ReduceL2(%x) {axes = [axis]}   %y = %x / %n   ->   %y = LpNormalization(%x) {axis, p = 2}
// and likewise with ReduceL1 (p = 1), with norms as the root of a sum of squares or the sum of absolute values, and
// with norms that are expanded before the division. Nothing else reads the values in between. A line of zeros gives
// zeros instead of NaN; norms with a lower bound (Clip, Max) are another formula.
#include "graph/rewriter.h"
#include "passes/formula.h"
#include "passes/passes.h"

namespace quern {
namespace {

// The one dimension that a reduction with kept dimensions is over.
std::optional<int64_t> AxisOf(const Node& reduction, int rank) {
  if (reduction.GetInt("keepdims", 1) == 0) return std::nullopt;
  const auto axes = reduction.input(1) != nullptr ? IntsOf(reduction.input(1)) : reduction.GetInts("axes");
  if (!axes || axes->size() != 1) return std::nullopt;
  const int64_t axis = axes->front() + (axes->front() < 0 ? rank : 0);
  return axis >= 0 && axis < rank ? std::optional(axis) : std::nullopt;
}

struct Norm {
  const Node* reduction;
  int64_t p;
};

// What makes the value the norm of x.
std::optional<Norm> ReadNorm(const GraphValue* v, GraphValue* x) {
  const auto sum = [](const GraphValue* of) { return HasOneReader(of) ? ProducerOf(of, "ReduceSum") : nullptr; };
  for (const auto& [op_type, p] : {std::pair{"ReduceL1", 1}, {"ReduceL2", 2}}) {
    const Node* n = ProducerOf(v, op_type);
    if (n != nullptr && n->input(0) == x) return Norm{n, p};
  }
  if (const Node* n = sum(v)) {
    const Node* abs = HasOneReader(n->input(0)) ? ProducerOf(n->input(0), "Abs") : nullptr;
    return abs != nullptr && abs->input(0) == x ? std::optional(Norm{n, 1}) : std::nullopt;
  }
  const Node* root = ProducerOf(v, "Sqrt");
  if (root == nullptr || !HasOneReader(root->input(0))) return std::nullopt;
  const Node *squares = ProducerOf(root->input(0), "ReduceSumSquare"), *plain = sum(root->input(0));
  if (squares != nullptr && squares->input(0) == x) return Norm{squares, 2};
  if (plain == nullptr || !HasOneReader(plain->input(0))) return std::nullopt;
  const Factored p = FactorsOf(plain->input(0));
  return p.number == 1 && p.Is(1, {x, x}) ? std::optional(Norm{plain, 2}) : std::nullopt;
}

Result<bool> Fuse(Graph& graph, Node* n, int newest) {
  if (!IsWhole(*n, "Div") || !HasOneReader(n->input(1))) return false;
  GraphValue* x = n->input(0);
  const ValueType &from = x->type(), &to = n->output(0)->type();
  if (!from.is_tensor() || !IsFloatType(from.dtype) || !from.has_rank() || !to.has_rank() || *from.shape != *to.shape) {
    return false;
  }
  const Node* expand = ProducerOf(n->input(1), "Expand");
  const GraphValue* divisor = expand != nullptr ? expand->input(0) : n->input(1);
  const std::optional<Norm> norm = HasOneReader(divisor) ? ReadNorm(divisor, x) : std::nullopt;
  const std::optional<int64_t> axis = norm ? AxisOf(*norm->reduction, from.rank()) : std::nullopt;
  const int since = from.dtype == DType::kBF16 ? 22 : 1;
  if (!axis || newest < since) return false;
  ReplaceNode(graph, n,
              {.name = n->name(),
               .op_type = "LpNormalization",
               .opset = since,
               .inputs = {x},
               .attributes = {{"axis", *axis}, {"p", norm->p}}});
  return true;
}

Result<int> Run(Graph& graph, const void* context) {
  const int newest = NewestOpset(context);
  return RewriteNodes(graph, [newest](Graph& g, Node* n) { return Fuse(g, n, newest); });
}

}  // namespace

extern const Pass kFuseLpNorm = {"fuse_lp_norm", "values over their norms", Run};

}  // namespace quern
