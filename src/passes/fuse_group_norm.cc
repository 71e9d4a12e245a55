// Group normalization, as exporters write it, becomes one node:
//   %g = Reshape(%x, [0, groups, -1])   %n = InstanceNormalization(%g, ones, zeros) {epsilon}
//   %r = Reshape(%n, Shape(%x))         %y = %r * %scale + %bias
// ->
//   %y = GroupNormalization(%x, %scale, %bias) {num_groups = groups, epsilon}
// and likewise where the normalization between the reshapes is written out. The parameters are constants of float32,
// one number for each channel, and may be missing. Nothing else reads the values in between.
#include <algorithm>

#include "graph/rewriter.h"
#include "passes/formula.h"
#include "passes/normalized.h"
#include "passes/passes.h"
#include "tensor/tensor.h"

namespace quern {
namespace {

constexpr int kGroupNormSince = 21;  // with parameters of channels

bool IsAll(const GraphValue* v, float number) {
  if (v == nullptr || !v->is_constant() || !v->constant()->is_tensor()) return false;
  const Tensor& t = v->constant()->tensor();
  if (t.dtype() != DType::kF32 || !t.is_contiguous()) return false;
  const std::span<float> numbers = t.values<float>();
  return std::all_of(numbers.begin(), numbers.end(), [number](float x) { return x == number; });
}

// What is normalized over all dimensions but the first two, without parameters.
std::optional<Normalized> ReadPlain(GraphValue* v) {
  if (const Node* n = ProducerOf(v, "InstanceNormalization")) {
    if (n->opset() < 6 || !IsAll(n->input(1), 1) || !IsAll(n->input(2), 0)) return std::nullopt;
    return Normalized{.x = n->input(0), .centered = true, .axis = 2, .epsilon = n->GetFloat("epsilon", 1e-5f)};
  }
  const std::optional<Normalized> of = ReadNormalized(v);
  return of && of->centered && of->axis == 2 ? of : std::nullopt;
}

struct Groups {
  GraphValue* x;
  int64_t number;
  float epsilon;
};

std::optional<Groups> ReadGroups(GraphValue* v) {
  const Node* back = ProducerOf(v, "Reshape");
  const std::optional<Normalized> of =
      back != nullptr && HasOneReader(back->input(0)) ? ReadPlain(back->input(0)) : std::nullopt;
  const Node* apart = of ? ProducerOf(of->x, "Reshape") : nullptr;
  if (apart == nullptr) return std::nullopt;
  GraphValue* x = apart->input(0);
  const auto has_channels = [](const GraphValue* w) {
    return w->type().is_tensor() && w->type().has_rank() && w->type().rank() >= 3;
  };
  if (!has_channels(x) || !has_channels(v) || !has_channels(of->x)) return std::nullopt;
  const Dims &shape = *x->type().shape, &groups = *of->x->type().shape;
  if (x->type().dtype != DType::kF32 || *v->type().shape != shape || !(groups[0] == shape[0])) return std::nullopt;
  if (!groups[1].is_constant() || !shape[1].is_constant()) return std::nullopt;
  const int64_t number = groups[1].value();
  if (number < 1 || shape[1].value() % number != 0) return std::nullopt;
  return Groups{x, number, of->epsilon};
}

struct Whole {
  Groups groups;
  ChannelAffine affine;
};

std::optional<Whole> ReadWhole(GraphValue* v) {
  const ChannelAffine affine = ChannelAffineOf(v);
  if (affine.of != v && !HasOneReader(affine.of)) return std::nullopt;
  const std::optional<Groups> groups = ReadGroups(affine.of);
  return groups ? std::optional(Whole{*groups, affine}) : std::nullopt;
}

Result<bool> Fuse(Graph& graph, Node* n) {
  GraphValue* y = n->output(0);
  if (!IsWhole(*n, "Reshape") && !IsWhole(*n, "Mul") && !IsWhole(*n, "Add")) return false;
  const std::optional<Whole> whole = ReadWhole(y);
  if (!whole) return false;
  // Its only reader may be the next part.
  if (HasOneReader(y) && whole->affine.bias == nullptr) {
    const Node* next = y->uses()[0].node;
    if ((IsWhole(*next, "Add") || IsWhole(*next, "Mul")) && ReadWhole(next->output(0))) return false;
  }
  const int64_t channels = (*y->type().shape)[1].value();
  GraphValue* scale = ChannelVector(graph, whole->affine.scale, channels, 1, y->name() + "_scale");
  GraphValue* bias = ChannelVector(graph, whole->affine.bias, channels, 0, y->name() + "_bias");
  if (scale == nullptr || bias == nullptr) return false;
  ReplaceNode(graph, n,
              {.name = n->name(),
               .op_type = "GroupNormalization",
               .opset = kGroupNormSince,
               .inputs = {whole->groups.x, scale, bias},
               .attributes = {{"epsilon", whole->groups.epsilon}, {"num_groups", whole->groups.number}}});
  return true;
}

Result<int> Run(Graph& graph, const void* context) {
  return NewestOpset(context) < kGroupNormSince ? Result<int>(0) : RewriteNodes(graph, Fuse);
}

}  // namespace

extern const Pass kFuseGroupNorm = {"fuse_group_norm", "group normalizations between two shapes", Run};

}  // namespace quern
