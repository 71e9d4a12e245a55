// The pixels of each place within a block, sliced out and put beside each other as channels of a convolution (YOLO's
// Focus), are one move of blocks to channels. Its order of places is another one, which the weights take:
//   %a = Slice(%x) by [::2, ::2]   %b = Slice(%x) by [1::2, ::2]   %c, %d likewise   %k = Concat(%a, %b, %c, %d)
//   %y = Conv(%k, w)
// ->
//   %k = SpaceToDepth(%x) {blocksize = 2}   %y = Conv(%k, w with its channels in that order)
#include <array>
#include <cstring>

#include "graph/rewriter.h"
#include "passes/formula.h"
#include "passes/inserter.h"
#include "passes/passes.h"

namespace quern {
namespace {

std::optional<std::vector<int64_t>> ConstantInts(const GraphValue* v) {
  if (v == nullptr || !v->is_constant() || !v->constant()->is_tensor()) return std::nullopt;
  Result<std::vector<int64_t>> values = ToInt64s(v->constant()->tensor());
  return values.ok() ? std::optional(std::move(values).value()) : std::nullopt;
}

// Every step-th row and column of a value, from a first one on.
struct Grid {
  GraphValue* of = nullptr;
  std::array<int64_t, 2> first = {-1, -1}, step = {1, 1};
};

// Adds what a Slice of four dimensions takes; false where it is none of a grid that goes on to the end.
bool AddSlice(const Node& slice, Grid& grid) {
  if (slice.opset() < 10 || slice.num_inputs() != 5 || !slice.input(0)->type().has_rank()) return false;
  const auto starts = ConstantInts(slice.input(1)), ends = ConstantInts(slice.input(2)),
             axes = ConstantInts(slice.input(3)), steps = ConstantInts(slice.input(4));
  if (!starts || !ends || !axes || !steps) return false;
  const Dims& dims = *slice.input(0)->type().shape;
  const size_t count = starts->size();
  if (dims.size() != 4 || ends->size() != count || axes->size() != count || steps->size() != count) return false;
  for (size_t i = 0; i < count; ++i) {
    const int64_t axis = (*axes)[i] + ((*axes)[i] < 0 ? 4 : 0);
    if (axis != 2 && axis != 3) return false;
    const auto side = static_cast<size_t>(axis - 2);
    const Dim& extent = dims[static_cast<size_t>(axis)];
    const bool to_the_end = (*ends)[i] >= (extent.is_constant() ? extent.value() : INT32_MAX);
    if (!to_the_end || grid.first[side] >= 0 || (*starts)[i] < 0 || (*starts)[i] >= (*steps)[i]) return false;
    grid.first[side] = (*starts)[i];
    grid.step[side] = (*steps)[i];
  }
  grid.of = slice.input(0);
  return true;
}

// The grid that one Slice or two take.
std::optional<Grid> ReadGrid(GraphValue* v) {
  Grid grid{.of = v};
  for (int i = 0; i < 2; ++i) {
    const Node* slice = ProducerOf(grid.of, "Slice");
    if (slice == nullptr || !AddSlice(*slice, grid)) break;
  }
  return grid.first[0] >= 0 && grid.first[1] >= 0 ? std::optional(grid) : std::nullopt;
}

struct Focus {
  GraphValue* x = nullptr;
  int64_t block = 0, channels = 0;
  std::vector<int64_t> places;  // of each operand of the Concat: its place within a block, row by row
};

std::optional<Focus> ReadFocus(const Node& concat) {
  Focus f;
  std::vector<bool> seen(static_cast<size_t>(concat.num_inputs()));
  for (GraphValue* v : concat.inputs()) {
    const std::optional<Grid> grid = ReadGrid(v);
    if (!grid || (f.x != nullptr && grid->of != f.x)) return std::nullopt;
    f.x = grid->of;
    f.block = grid->step[0];
    if (grid->step[1] != f.block || f.block * f.block != concat.num_inputs()) return std::nullopt;
    const int64_t place = grid->first[0] * f.block + grid->first[1];
    if (seen[static_cast<size_t>(place)]) return std::nullopt;
    seen[static_cast<size_t>(place)] = true;
    f.places.push_back(place);
  }
  if (f.block < 2) return std::nullopt;
  const Dims& dims = *f.x->type().shape;
  for (const size_t d : {2, 3}) {
    if (dims[d].is_constant() && dims[d].value() % f.block != 0) return std::nullopt;
  }
  if (!dims[1].is_constant()) return std::nullopt;
  f.channels = dims[1].value();
  return f;
}

// The weights of a convolution that reads the places in the order of SpaceToDepth.
Result<Tensor> Reorder(const Tensor& weights, const Focus& f) {
  QUERN_ASSIGN_OR_RETURN(Tensor ordered, Tensor::Allocate(weights.dtype(), weights.shape()));
  const auto count = static_cast<int64_t>(f.places.size());
  const size_t bytes = weights.bytes() / static_cast<size_t>(weights.dim(0) * count);  // of one place
  const auto* from = static_cast<const std::byte*>(weights.raw_data());
  auto* to = static_cast<std::byte*>(ordered.raw_data());
  for (int64_t o = 0; o < weights.dim(0); ++o) {
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to + static_cast<size_t>(o * count + f.places[static_cast<size_t>(i)]) * bytes,
                  from + static_cast<size_t>(o * count + i) * bytes, bytes);
    }
  }
  return ordered;
}

Result<bool> Fuse(Graph& graph, Node* n) {
  if (!IsWhole(*n, "Conv") || n->GetInt("group", 1) != 1 || !HasOneReader(n->input(0)) || n->input(1) == nullptr) {
    return false;
  }
  const Node* concat = ProducerOf(n->input(0), "Concat");
  if (concat == nullptr || !n->input(0)->type().has_rank() || n->input(0)->type().rank() != 4) return false;
  const int64_t axis = concat->GetInt("axis", 1);
  const std::optional<Focus> f = axis == 1 || axis == -3 ? ReadFocus(*concat) : std::nullopt;
  const GraphValue* w = n->input(1);
  if (!f || !w->is_constant() || !w->constant()->is_tensor()) return false;
  const Tensor& weights = w->constant()->tensor();
  if (!weights.is_contiguous() || DTypeBytes(weights.dtype()) == 0 || weights.rank() != 4 || weights.dim(0) == 0 ||
      weights.dim(1) != f->channels * f->block * f->block) {
    return false;
  }
  QUERN_ASSIGN_OR_RETURN(Tensor ordered, Reorder(weights, *f));
  Inserter inserter(graph, n);
  std::vector<GraphValue*> inputs = n->inputs();
  inputs[0] = inserter.Add("SpaceToDepth", 1, {f->x}, n->input(0)->type(), {{"blocksize", f->block}});
  inputs[1] = inserter.Constant(std::move(ordered), "_weights");
  ReplaceNode(graph, n,
              {.name = n->name(),
               .op_type = "Conv",
               .opset = n->opset(),
               .inputs = std::move(inputs),
               .attributes = n->attributes()});
  return true;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Fuse); }

}  // namespace

extern const Pass kFuseFocus = {"fuse_focus", "pixels sliced into channels of a convolution", Run};

}  // namespace quern
