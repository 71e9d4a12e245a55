// Blocks of pixels that become channels, and channels that become blocks of pixels, as Reshape, Transpose and Reshape:
//   %a = Reshape(%x, [n, b, b, c, h, w])   %t = Transpose(%a) {perm = [0, 3, 4, 1, 5, 2]}   %y = Reshape(%t, [n, c,
//   ..])
// ->
//   %y = DepthToSpace(%x) {blocksize = b, mode = "DCR"}
// and so [n, c, b, b, h, w] with perm = [0, 1, 4, 2, 5, 3] in mode CRD, and SpaceToDepth of [n, c, h, b, w, b] with
// perm = [0, 3, 5, 1, 2, 4]. Nothing else reads the values in between.
#include <algorithm>
#include <array>

#include "graph/rewriter.h"
#include "ops/common/permutation.h"
#include "passes/formula.h"
#include "passes/passes.h"

namespace quern {
namespace {

constexpr int kModeSince = 11;

// Where the dimensions of one form stand among the six.
struct Form {
  const char* op_type;
  const char* mode;  // null: no such attribute
  std::array<int64_t, 6> perm;
  size_t channels, rows, columns;
  std::array<size_t, 2> blocks;
};
constexpr Form kForms[] = {
    {"DepthToSpace", "DCR", {0, 3, 4, 1, 5, 2}, 3, 4, 5, {1, 2}},
    {"DepthToSpace", "CRD", {0, 1, 4, 2, 5, 3}, 1, 4, 5, {2, 3}},
    {"SpaceToDepth", nullptr, {0, 3, 5, 1, 2, 4}, 1, 2, 4, {3, 5}},
};

const Dims* ShapeOf(const GraphValue* v, size_t rank) {
  return v->type().is_tensor() && v->type().has_rank() && v->type().shape->size() == rank ? &*v->type().shape : nullptr;
}

// The side of a block where `x`, taken apart as `six`, becomes `y` in that form; 0 where it does not.
int64_t BlockSize(const Form& form, const Dims& x, const Dims& six, const Dims& y) {
  const Dim& b = six[form.blocks[0]];
  if (!b.is_constant() || b.value() < 2 || !(b == six[form.blocks[1]]) || !(x[0] == six[0])) return 0;
  const Dims deep = {six[0], six[form.channels] * b * b, six[form.rows], six[form.columns]};
  const Dims wide = {six[0], six[form.channels], six[form.rows] * b, six[form.columns] * b};
  const bool to_space = std::string_view(form.op_type) == "DepthToSpace";
  return x == (to_space ? deep : wide) && y == (to_space ? wide : deep) ? b.value() : 0;
}

Result<bool> Fuse(Graph& graph, Node* n) {
  if (!IsWhole(*n, "Reshape") || !HasOneReader(n->input(0))) return false;
  const Node* transpose = ProducerOf(n->input(0), "Transpose");
  if (transpose == nullptr || !HasOneReader(transpose->input(0))) return false;
  const Node* apart = ProducerOf(transpose->input(0), "Reshape");
  if (apart == nullptr) return false;
  GraphValue* from = apart->input(0);
  const Dims *x = ShapeOf(from, 4), *six = ShapeOf(apart->output(0), 6), *y = ShapeOf(n->output(0), 4);
  if (x == nullptr || six == nullptr || y == nullptr) return false;
  const Result<std::vector<int64_t>> perm = ReadPermutation(*transpose, 6);
  if (!perm.ok()) return false;
  for (const Form& form : kForms) {
    if (!std::equal(perm->begin(), perm->end(), form.perm.begin(), form.perm.end())) continue;
    const int64_t block = BlockSize(form, *x, *six, *y);
    if (block == 0) return false;
    std::map<std::string, Attribute, std::less<>> attributes = {{"blocksize", block}};
    if (form.mode != nullptr) attributes["mode"] = std::string(form.mode);
    ReplaceNode(graph, n,
                {.name = n->name(),
                 .op_type = form.op_type,
                 .opset = std::max(n->opset(), kModeSince),
                 .inputs = {from},
                 .attributes = std::move(attributes)});
    return true;
  }
  return false;
}

Result<int> Run(Graph& graph, const void* context) {
  return NewestOpset(context) < kModeSince ? Result<int>(0) : RewriteNodes(graph, Fuse);
}

}  // namespace

extern const Pass kFuseDepthSpace = {"fuse_depth_space", "moves between blocks of pixels and channels", Run};

}  // namespace quern
