// The GELU that is written out, with the error function or its approximation by tanh, becomes one node:
//   %y = 0.5 * %x * (1 + Erf(%x / sqrt(2)))                               ->  %y = Gelu(%x)
//   %y = 0.5 * %x * (1 + Tanh(sqrt(2 / pi) * (%x + 0.044715 * %x^3)))     ->  %y = Gelu(%x) {approximate = "tanh"}
// in any order of the products. Nothing else reads the values in between.
#include <cmath>

#include "graph/rewriter.h"
#include "passes/formula.h"
#include "passes/passes.h"

namespace quern {
namespace {

constexpr int kGeluSince = 20;
constexpr double kCube = 0.044715;
const double kRootHalf = std::sqrt(0.5), kRootTwoOverPi = std::sqrt(2 / std::acos(-1.0));

// Whether the value is sqrt(2 / pi) * (x + 0.044715 * x^3), or sqrt(2 / pi) * x * (1 + 0.044715 * x^2).
bool IsTanhArgument(GraphValue* v, GraphValue* x) {
  const Factored p = FactorsOf(v);
  if (!IsAbout(p.number, kRootTwoOverPi)) return false;
  if (p.factors.size() == 1 && HasOneReader(p.factors[0])) {
    const Node* add = ProducerOf(p.factors[0], "Add");
    if (add == nullptr) return false;
    const int cube = add->input(0) == x ? 1 : 0;
    return add->input(1 - cube) == x && HasOneReader(add->input(cube)) &&
           FactorsOf(add->input(cube)).Is(kCube, {x, x, x});
  }
  if (p.factors.size() != 2) return false;
  GraphValue* sum = p.factors[p.factors[0] == x ? 1 : 0];
  if (p.factors[0] != x && p.factors[1] != x) return false;
  const auto shifted = HasOneReader(sum) ? ShiftedOf(sum) : std::nullopt;
  return shifted && IsAbout(shifted->number, 1) && HasOneReader(shifted->value) &&
         FactorsOf(shifted->value).Is(kCube, {x, x});
}

// "none" or "tanh" when the value is 1 + erf(x / sqrt(2)) or the like; else null.
const char* KindOf(GraphValue* v, GraphValue* x) {
  if (!HasOneReader(v)) return nullptr;
  const auto shifted = ShiftedOf(v);
  if (!shifted || !IsAbout(shifted->number, 1) || !HasOneReader(shifted->value)) return nullptr;
  const Node *erf = ProducerOf(shifted->value, "Erf"), *tanh = ProducerOf(shifted->value, "Tanh");
  const Node* n = erf != nullptr ? erf : tanh;
  if (n == nullptr || !HasOneReader(n->input(0))) return nullptr;
  if (erf != nullptr) return FactorsOf(erf->input(0)).Is(kRootHalf, {x}) ? "none" : nullptr;
  return IsTanhArgument(tanh->input(0), x) ? "tanh" : nullptr;
}

Result<bool> Fuse(Graph& graph, Node* n) {
  if (!IsWhole(*n, "Mul") && !IsWhole(*n, "Div")) return false;
  const ValueType& type = n->output(0)->type();
  if (!type.is_tensor() || !IsFloatType(type.dtype) || !type.has_rank()) return false;
  const Factored p = FactorsOf(n->output(0));
  if (p.factors.size() != 2 || !IsAbout(p.number, 0.5)) return false;
  for (int i = 0; i < 2; ++i) {
    GraphValue* x = p.factors[static_cast<size_t>(i)];
    const char* kind = KindOf(p.factors[static_cast<size_t>(1 - i)], x);
    if (kind == nullptr) continue;
    ReplaceNode(graph, n,
                {.name = n->name(),
                 .op_type = "Gelu",
                 .opset = kGeluSince,
                 .inputs = {x},
                 .attributes = {{"approximate", std::string(kind)}}});
    return true;
  }
  return false;
}

Result<int> Run(Graph& graph, const void* context) {
  return NewestOpset(context) < kGeluSince ? Result<int>(0) : RewriteNodes(graph, Fuse);
}

}  // namespace

extern const Pass kFuseGelu = {"fuse_gelu", "GELUs that are written out", Run};

}  // namespace quern
