// Layer normalization that is written out becomes one node:
//   %d = %x - ReduceMean(%x)   %y = %d / Sqrt(ReduceMean(%d * %d) + epsilon) * %scale + %bias
// ->
//   %y = LayerNormalization(%x, %scale, %bias) {axis, epsilon}
// and likewise without the mean, as RMSNormalization:
//   %y = %x / Sqrt(ReduceMean(%x * %x) + epsilon) * %scale
// The means are over the last dimensions, the parameters constants of their extents, in any order of the products; a
// scale that is missing is one of ones. Nothing else reads the values in between.
#include "graph/rewriter.h"
#include "passes/formula.h"
#include "passes/normalized.h"
#include "passes/passes.h"

namespace quern {
namespace {

constexpr int kLayerNormSince = 17, kRmsNormSince = 23;

// A constant with the extents of x from `axis` on.
bool IsParameter(const GraphValue* v, const GraphValue* x, int axis) {
  if (!v->is_constant() || !v->type().has_rank() || v->type().dtype != x->type().dtype) return false;
  const Dims& shape = *x->type().shape;
  return *v->type().shape == Dims(shape.begin() + axis, shape.end());
}

struct Whole {
  Normalized of;
  GraphValue *scale = nullptr, *bias = nullptr;
};

// The quotient, or its product with a scale.
std::optional<Whole> ReadScaled(GraphValue* v) {
  if (const auto of = ReadNormalized(v)) return Whole{.of = *of};
  const Node* mul = ProducerOf(v, "Mul");
  for (int i = 0; mul != nullptr && i < 2; ++i) {
    const auto of = HasOneReader(mul->input(1 - i)) ? ReadNormalized(mul->input(1 - i)) : std::nullopt;
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
  return AddFilled(graph, name + "_ones", shape, 1);
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
