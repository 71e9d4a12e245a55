// Layer normalization that is written out becomes one node:
//   %d = %x - ReduceMean(%x)   %y = %d / Sqrt(ReduceMean(%d * %d) + epsilon) * %scale + %bias
// ->
//   %y = LayerNormalization(%x, %scale, %bias) {axis, epsilon}
// and likewise without the mean, as RMSNormalization:
//   %y = %x / Sqrt(ReduceMean(%x * %x) + epsilon) * %scale
// The means are over the last dimensions, the parameters constants of their extents, in any order of the products; a
// scale that is missing is one of ones. Nothing else reads the values in between.
#include <algorithm>

#include "graph/rewriter.h"
#include "passes/formula.h"
#include "passes/passes.h"
#include "tensor/tensor.h"

namespace quern {
namespace {

constexpr int kLayerNormSince = 17, kRmsNormSince = 23;

// The first of the last dimensions that a ReduceMean with kept dimensions is over; nothing for other nodes.
std::optional<int> FirstReduced(const Node* n) {
  if (n == nullptr || n->GetInt("keepdims", 1) == 0 || !n->input(0)->type().has_rank()) return std::nullopt;
  const int rank = n->input(0)->type().rank();
  std::vector<int64_t> axes = n->GetInts("axes");
  if (const GraphValue* given = n->input(1); n->opset() >= 18 && given != nullptr) {
    if (!given->is_constant() || !given->constant()->is_tensor() ||
        given->constant()->tensor().dtype() != DType::kI64) {
      return std::nullopt;
    }
    const std::span<int64_t> values = given->constant()->tensor().values<int64_t>();
    axes.assign(values.begin(), values.end());
  }
  for (int64_t& a : axes) a += a < 0 ? rank : 0;
  std::sort(axes.begin(), axes.end());
  if (axes.empty() || static_cast<int>(axes.size()) > rank) return std::nullopt;
  const int first = rank - static_cast<int>(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != first + static_cast<int64_t>(i)) return std::nullopt;
  }
  return first;
}

// A constant with the extents of x from `axis` on.
bool IsParameter(const GraphValue* v, const GraphValue* x, int axis) {
  if (!v->is_constant() || !v->type().has_rank() || v->type().dtype != x->type().dtype) return false;
  const Dims& shape = *x->type().shape;
  return *v->type().shape == Dims(shape.begin() + axis, shape.end());
}

struct Normalized {
  GraphValue* x = nullptr;
  bool centered = false;
  int axis = 0;
  float epsilon = 0;
};

// What the factor 1 / sqrt(mean(d * d) + epsilon) normalizes d as; nothing when `root` is no such root.
std::optional<Normalized> ReadRoot(GraphValue* root, GraphValue* d) {
  const Node* sqrt = HasOneReader(root) ? ProducerOf(root, "Sqrt") : nullptr;
  if (sqrt == nullptr || !HasOneReader(sqrt->input(0))) return std::nullopt;
  const auto sum = ShiftedOf(sqrt->input(0));
  if (!sum || !HasOneReader(sum->value) || sum->number < 0) return std::nullopt;
  const Node* variance = ProducerOf(sum->value, "ReduceMean");
  const std::optional<int> axis = FirstReduced(variance);
  if (!axis || !HasOneReader(variance->input(0)) || !FactorsOf(variance->input(0)).Is(1, {d, d})) return std::nullopt;
  Normalized n{.x = d, .centered = false, .axis = *axis, .epsilon = static_cast<float>(sum->number)};
  const Node* centered = ProducerOf(d, "Sub");
  if (centered == nullptr) return n;
  const Node* mean = ProducerOf(centered->input(1), "ReduceMean");
  if (mean == nullptr || mean->input(0) != centered->input(0) || FirstReduced(mean) != axis) return n;
  n.x = centered->input(0);
  n.centered = true;
  return n;
}

// d / root, or d * (1 / root).
std::optional<Normalized> ReadQuotient(GraphValue* v) {
  if (const Node* div = ProducerOf(v, "Div")) return ReadRoot(div->input(1), div->input(0));
  const Node* mul = ProducerOf(v, "Mul");
  for (int i = 0; mul != nullptr && i < 2; ++i) {
    GraphValue* inverse = mul->input(i);
    if (!HasOneReader(inverse)) continue;
    const Node *reciprocal = ProducerOf(inverse, "Reciprocal"), *div = ProducerOf(inverse, "Div");
    GraphValue* root = reciprocal != nullptr ? reciprocal->input(0) : nullptr;
    if (div != nullptr && ScalarOf(div->input(0), 16) == 1.0) root = div->input(1);
    if (root == nullptr) continue;
    if (auto n = ReadRoot(root, mul->input(1 - i))) return n;
  }
  return std::nullopt;
}

struct Whole {
  Normalized of;
  GraphValue *scale = nullptr, *bias = nullptr;
};

// The quotient, or its product with a scale.
std::optional<Whole> ReadScaled(GraphValue* v) {
  if (const auto of = ReadQuotient(v)) return Whole{.of = *of};
  const Node* mul = ProducerOf(v, "Mul");
  for (int i = 0; mul != nullptr && i < 2; ++i) {
    const auto of = HasOneReader(mul->input(1 - i)) ? ReadQuotient(mul->input(1 - i)) : std::nullopt;
    if (of && IsParameter(mul->input(i), of->x, of->axis)) return Whole{.of = *of, .scale = mul->input(i)};
  }
  return std::nullopt;
}

// The same, or its sum with a bias.
std::optional<Whole> ReadWhole(GraphValue* v) {
  if (auto whole = ReadScaled(v)) return whole;
  const Node* add = ProducerOf(v, "Add");
  for (int i = 0; add != nullptr && i < 2; ++i) {
    auto whole = HasOneReader(add->input(1 - i)) ? ReadScaled(add->input(1 - i)) : std::nullopt;
    if (!whole || !whole->of.centered || !IsParameter(add->input(i), whole->of.x, whole->of.axis)) continue;
    whole->bias = add->input(i);
    return whole;
  }
  return std::nullopt;
}

GraphValue* Ones(Graph& graph, const Normalized& of, const std::string& name) {
  Shape shape;
  const Dims& dims = *of.x->type().shape;
  for (size_t d = static_cast<size_t>(of.axis); d < dims.size(); ++d) shape.push_back(dims[d].value());
  Result<Tensor> ones = Tensor::Allocate(DType::kF32, shape);
  if (!ones.ok()) return nullptr;
  for (float& v : ones->values<float>()) v = 1;
  GraphValue* made = graph.AddConstant(graph.UniqueName(name + "_ones"), *std::move(ones));
  made->set_type(TypeOf(*made->constant()));
  return made;
}

Result<bool> Fuse(Graph& graph, Node* n, int newest) {
  if (!IsWhole(*n, "Div") && !IsWhole(*n, "Mul") && !IsWhole(*n, "Add")) return false;
  const auto whole = ReadWhole(n->output(0));
  if (!whole) return false;
  const Normalized& of = whole->of;
  // Its only reader may be the next part.
  if (HasOneReader(n->output(0)) && ReadWhole(n->output(0)->uses()[0].node->output(0))) return false;
  const Dims& shape = *of.x->type().shape;
  if (of.x->type().dtype != DType::kF32 || !AllConstant(Dims(shape.begin() + of.axis, shape.end()))) return false;
  if (newest < (of.centered ? kLayerNormSince : kRmsNormSince)) return false;
  GraphValue* scale = whole->scale != nullptr ? whole->scale : Ones(graph, of, n->output(0)->name());
  if (scale == nullptr) return false;
  std::vector<GraphValue*> inputs = {of.x, scale};
  if (whole->bias != nullptr) inputs.push_back(whole->bias);
  ReplaceNode(graph, n,
              {.name = n->name(),
               .op_type = of.centered ? "LayerNormalization" : "RMSNormalization",
               .opset = of.centered ? kLayerNormSince : kRmsNormSince,
               .inputs = std::move(inputs),
               .attributes = {{"axis", static_cast<int64_t>(of.axis)}, {"epsilon", of.epsilon}}});
  return true;
}

Result<int> Run(Graph& graph, const void* context) {
  const int newest = NewestOpset(context);
  return RewriteNodes(graph, [newest](Graph& g, Node* n) { return Fuse(g, n, newest); });
}

}  // namespace

extern const Pass kFuseLayerNorm = {"fuse_layer_norm", "layer normalizations that are written out", Run};

}  // namespace quern
