// Instance normalization that is written out becomes one node:
//   %d = %x - ReduceMean(%x)   %y = %d / Sqrt(ReduceMean(%d * %d) + epsilon) * %scale + %bias
// ->
//   %y = InstanceNormalization(%x, %scale, %bias) {epsilon}
// The means are over all dimensions of [N, C, ...] but the first two; the parameters are constants of float32, one
// number for each channel. One of them may be missing. Nothing else reads the values in between.
#include "graph/rewriter.h"
#include "passes/formula.h"
#include "passes/normalized.h"
#include "passes/passes.h"

namespace quern {
namespace {

struct Whole {
  Normalized of;
  ChannelAffine affine;
};

// Without a parameter of channels, the normalization may as well be one of layers.
std::optional<Whole> ReadWhole(GraphValue* v) {
  const ChannelAffine affine = ChannelAffineOf(v);
  if (affine.of == v || !HasOneReader(affine.of)) return std::nullopt;
  const std::optional<Normalized> of = ReadNormalized(affine.of);
  if (!of || !of->centered || of->axis != 2) return std::nullopt;
  return Whole{*of, affine};
}

Result<bool> Fuse(Graph& graph, Node* n) {
  GraphValue* y = n->output(0);
  if (!IsWhole(*n, "Mul") && !IsWhole(*n, "Add")) return false;
  const std::optional<Whole> whole = ReadWhole(y);
  if (!whole || whole->of.x->type().dtype != DType::kF32) return false;
  // Its only reader may be the next part.
  if (HasOneReader(y) && whole->affine.bias == nullptr) {
    const Node* next = y->uses()[0].node;
    if (IsWhole(*next, "Add") && ReadWhole(next->output(0))) return false;
  }
  const int64_t channels = (*y->type().shape)[1].value();
  GraphValue* scale = ChannelVector(graph, whole->affine.scale, channels, 1, y->name() + "_scale");
  GraphValue* bias = ChannelVector(graph, whole->affine.bias, channels, 0, y->name() + "_bias");
  if (scale == nullptr || bias == nullptr) return false;
  ReplaceNode(graph, n,
              {.name = n->name(),
               .op_type = "InstanceNormalization",
               .opset = 6,
               .inputs = {whole->of.x, scale, bias},
               .attributes = {{"epsilon", whole->of.epsilon}}});
  return true;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Fuse); }

}  // namespace

extern const Pass kFuseInstanceNorm = {"fuse_instance_norm", "instance normalizations that are written out", Run};

}  // namespace quern
