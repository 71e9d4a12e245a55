// Rotary embeddings, as exporters write them, become one node:
//   %h = Concat(-%x[..., size / 2 :], %x[..., : size / 2])      %y = %x * %cos + %h * %sin
// ->
//   %c = %cos[..., : size / 2] (and of the sines)   %y = RotaryEmbedding(%x, %c, %s)
// where x is [batch, heads, length, size], and the cosines and sines are alike for all heads and hold each number twice
// (paired_angles.h); those of one batch are expanded to all. The halves are Slices or a Split. Likewise with elements
// that are neighbours instead of halves:
//   %h = Reshape(Concat(-%x[..., 1 :: 2], %x[..., :: 2]) of a new last axis)  ->  RotaryEmbedding {interleaved = 1}
// Nothing else reads the products and %h. Heads of which only the first elements are turned, and joined to the rest
// again, become one node as well {rotary_embedding_dim}. Where x is Transpose(%r) {perm = [0, 2, 1, 3]}, the rows of
// all heads are turned before the transpose, which attend_within_rows may then take away.
#include "graph/rewriter.h"
#include "ops/common/permutation.h"
#include "passes/formula.h"
#include "passes/paired_angles.h"
#include "passes/passes.h"
#include "tensor/tensor.h"

namespace quern {
namespace {

constexpr int kRotarySince = 23;
constexpr int64_t kMostExtent = int64_t{1} << 31;  // products of two fit
const std::vector<int64_t> kHeadsFirst = {0, 2, 1, 3};

struct Rotation {
  GraphValue *x, *cosines, *sines;
  Pairing pairing;
  Node* last;           // what makes the result
  int64_t rotated = 0;  // the first elements of each head, where not all are turned
};

bool IsLastAxis(int64_t axis, int rank) { return axis == -1 || axis == rank - 1; }

// Elements `start`, `start` + `step`... of rows of `size`, half of them, of x.
bool IsSliceOf(const Node& slice, const GraphValue* x, int64_t start, int64_t step, int64_t size) {
  const auto starts = IntsOf(slice.input(1)), axes = IntsOf(slice.input(3));
  const auto steps = slice.input(4) != nullptr ? IntsOf(slice.input(4)) : std::vector<int64_t>{1};
  if (slice.opset() < 10 || slice.input(0) != x || !starts || !axes || !steps) return false;
  if (starts->size() != 1 || axes->size() != 1 || steps->size() != 1) return false;
  const int64_t first = starts->front() + (starts->front() < 0 ? size : 0);
  return IsLastAxis(axes->front(), 4) && steps->front() == step && first == start;
}

// Whether the value is the first or second elements of all pairs of x.
bool IsPart(const GraphValue* v, const GraphValue* x, bool second, Pairing pairing) {
  const int64_t size = x->type().shape->back().value();
  const Node* n = v->producer();
  if (n == nullptr || !v->type().has_rank() || v->type().rank() != 4) return false;
  if (!v->type().shape->back().is_constant(size / 2)) return false;
  if (IsWhole(*n, "Slice")) {
    return pairing == Pairing::kHalves ? IsSliceOf(*n, x, second ? size / 2 : 0, 1, size)
                                       : IsSliceOf(*n, x, second ? 1 : 0, 2, size);
  }
  return pairing == Pairing::kHalves && IsWhole(*n, "Split") && n->input(0) == x && n->num_outputs() == 2 &&
         n->output(second ? 1 : 0) == v && IsLastAxis(n->GetInt("axis", 0), 4);
}

// The operand of the operator that nothing else reads, or null.
GraphValue* Inside(const GraphValue* v, std::string_view op_type) {
  const Node* n = HasOneReader(v) ? ProducerOf(v, op_type) : nullptr;
  return n != nullptr ? n->input(0) : nullptr;
}

// The Concat of two along the last axis of so many dimensions that makes the value, or null.
const Node* Joined(const GraphValue* v, int rank) {
  const Node* n = HasOneReader(v) ? ProducerOf(v, "Concat") : nullptr;
  if (n == nullptr || n->num_inputs() != 2 || n->input(1) == nullptr) return nullptr;
  return IsLastAxis(n->GetInt("axis", 0), rank) ? n : nullptr;
}

// How the value is x with each pair (a, b) turned to (-b, a).
std::optional<Pairing> TurnOf(const GraphValue* v, const GraphValue* x) {
  if (const Node* halves = Joined(v, 4)) {
    const GraphValue* second = Inside(halves->input(0), "Neg");
    const bool turns = second != nullptr && IsPart(second, x, true, Pairing::kHalves) &&
                       IsPart(halves->input(1), x, false, Pairing::kHalves);
    return turns ? std::optional(Pairing::kHalves) : std::nullopt;
  }
  const GraphValue* apart = Inside(v, "Reshape");
  const Node* pairs = Joined(apart, 5);
  if (pairs == nullptr || *v->type().shape != *x->type().shape) return std::nullopt;
  for (const GraphValue* side : pairs->inputs()) {
    if (!side->type().has_rank() || side->type().rank() != 5 || !side->type().shape->back().is_constant(1)) {
      return std::nullopt;
    }
  }
  const GraphValue *first = Inside(pairs->input(1), "Unsqueeze"), *negative = Inside(pairs->input(0), "Unsqueeze");
  const GraphValue* second = Inside(negative, "Neg");
  const bool turns = first != nullptr && second != nullptr && IsPart(second, x, true, Pairing::kNeighbours) &&
                     IsPart(first, x, false, Pairing::kNeighbours);
  return turns ? std::optional(Pairing::kNeighbours) : std::nullopt;
}

bool IsExtent(const Dim& d) { return d.is_constant() && d.value() > 0 && d.value() <= kMostExtent; }

// [batch, heads, length, size] of a known size.
bool HasKnownSize(const GraphValue* x) {
  return x->type().is_tensor() && x->type().has_rank() && x->type().rank() == 4 && IsExtent(x->type().shape->back());
}

std::optional<Rotation> ReadRotation(Node& sum) {
  for (int i = 0; i < 2; ++i) {
    const Node* straight = HasOneReader(sum.input(i)) ? ProducerOf(sum.input(i), "Mul") : nullptr;
    const Node* turned = HasOneReader(sum.input(1 - i)) ? ProducerOf(sum.input(1 - i), "Mul") : nullptr;
    if (straight == nullptr || turned == nullptr) continue;
    for (int j = 0; j < 4; ++j) {
      GraphValue *x = straight->input(j / 2), *h = turned->input(j % 2);
      if (!HasKnownSize(x) || !h->type().has_rank()) continue;
      const std::optional<Pairing> pairing = TurnOf(h, x);
      if (pairing) return Rotation{x, straight->input(1 - j / 2), turned->input(1 - j % 2), *pairing, &sum};
    }
  }
  return std::nullopt;
}

// [batch or 1, 1, length, size], or the last of these dimensions alone.
bool AreAnglesOf(const GraphValue* angles, const GraphValue* x) {
  const ValueType& type = angles->type();
  if (!type.is_tensor() || type.dtype != x->type().dtype || !type.has_rank()) return false;
  const Dims &shape = *type.shape, &to = *x->type().shape;
  if (shape.size() < 2 || shape.size() > 4 || !(shape.back() == to[3]) || !(shape[shape.size() - 2] == to[2])) {
    return false;
  }
  if (shape.size() > 2 && !shape[shape.size() - 3].is_constant(1)) return false;
  return shape.size() < 4 || shape[0].is_constant(1) || shape[0] == to[0];
}

// The value whose first elements of each row the one holds, and the other the rest; null when it is something else.
GraphValue* WholeOf(const GraphValue* first, const GraphValue* rest) {
  Node *a = first->producer(), *b = rest->producer();
  GraphValue* x = a != nullptr ? a->input(0) : nullptr;
  if (x == nullptr || b == nullptr || !HasKnownSize(x) || !rest->type().has_rank() || rest->type().rank() != 4) {
    return nullptr;
  }
  const int64_t size = x->type().shape->back().value(), taken = first->type().shape->back().value();
  if (!rest->type().shape->back().is_constant(size - taken)) return nullptr;
  const bool slices =
      IsWhole(*a, "Slice") && IsWhole(*b, "Slice") && IsSliceOf(*a, x, 0, 1, size) && IsSliceOf(*b, x, taken, 1, size);
  const bool split = a == b && IsWhole(*a, "Split") && a->num_outputs() == 2 && a->output(0) == first &&
                     IsLastAxis(a->GetInt("axis", 0), 4);
  return slices || split ? x : nullptr;
}

// Where the rest of each head is joined to what is turned, the rotation is one of whole heads.
void TakeRest(Rotation& r) {
  const GraphValue* y = r.last->output(0);
  if (!HasOneReader(y)) return;
  Node* join = y->uses()[0].node;
  if (!IsWhole(*join, "Concat") || join->num_inputs() != 2 || join->input(0) != y || join->input(1) == nullptr ||
      !IsLastAxis(join->GetInt("axis", 0), 4)) {
    return;
  }
  GraphValue* whole = WholeOf(r.x, join->input(1));
  if (whole == nullptr) return;
  r.rotated = r.x->type().shape->back().value();
  r.x = whole;
  r.last = join;
}

class Fuser {
 public:
  Fuser(Graph& graph, const Rotation& rotation) : graph_(graph), last_(rotation.last), rotation_(rotation) {}

  void Fuse() {
    std::vector<GraphValue*> inputs = {rotation_.x, Cache(rotation_.cosines), Cache(rotation_.sines)};
    std::map<std::string, Attribute, std::less<>> attributes = {
        {"interleaved", int64_t{rotation_.pairing == Pairing::kNeighbours}}};
    if (rotation_.rotated > 0) attributes["rotary_embedding_dim"] = rotation_.rotated;
    const Dims& shape = *rotation_.x->type().shape;
    GraphValue* apart = HeadsApart();
    if (apart == nullptr) {
      ReplaceNode(graph_, last_,
                  {.name = last_->name(),
                   .op_type = "RotaryEmbedding",
                   .opset = kRotarySince,
                   .inputs = std::move(inputs),
                   .attributes = std::move(attributes)});
      return;
    }
    const DType dtype = rotation_.x->type().dtype;
    const int64_t heads = shape[1].value(), size = shape[3].value();
    const ValueType rows = ValueType::Tensor(dtype, Dims{shape[0], shape[2], heads * size});
    inputs[0] = Add("Reshape", 13, {apart, Numbers({0, 0, heads * size})}, rows);
    attributes["num_heads"] = heads;
    GraphValue* turned = Add("RotaryEmbedding", kRotarySince, std::move(inputs), rows, std::move(attributes));
    turned->producer()->set_name(last_->name());
    GraphValue* split = Add("Reshape", 13, {turned, Numbers({0, 0, heads, size})}, apart->type());
    ReplaceNode(graph_, last_,
                {.op_type = "Transpose", .opset = 13, .inputs = {split}, .attributes = {{"perm", kHeadsFirst}}});
  }

 private:
  // [batch, length, heads, size], of which x is the transposed form, where the number of heads is known; else null.
  GraphValue* HeadsApart() const {
    const Node* transpose = ProducerOf(rotation_.x, "Transpose");
    const Dim& heads = (*rotation_.x->type().shape)[1];
    if (transpose == nullptr || !IsExtent(heads)) return nullptr;
    const GraphValue* from = transpose->input(0);
    if (!from->type().has_rank() || from->type().rank() != 4) return nullptr;
    const Result<std::vector<int64_t>> perm = ReadPermutation(*transpose, 4);
    return perm.ok() && *perm == kHeadsFirst ? transpose->input(0) : nullptr;
  }
  GraphValue* Add(const char* op_type, int opset, std::vector<GraphValue*> inputs, ValueType type,
                  std::map<std::string, Attribute, std::less<>> attributes = {}) {
    Node* n = graph_.AddNode({.op_type = op_type,
                              .opset = opset,
                              .inputs = std::move(inputs),
                              .outputs = {graph_.UniqueName(last_->output(0)->name() + "_part")},
                              .attributes = std::move(attributes)},
                             last_);
    n->output(0)->set_type(std::move(type));
    return n->output(0);
  }
  GraphValue* Numbers(const std::vector<int64_t>& numbers) {
    const auto n = static_cast<int64_t>(numbers.size());
    GraphValue* v = graph_.AddConstant(graph_.UniqueName(last_->output(0)->name() + "_numbers"),
                                       Tensor::FromValues<int64_t>(Shape{n}, numbers));
    v->set_type(ValueType::Tensor(DType::kI64, Dims{Dim(n)}));
    return v;
  }

  // One number of each pair, [batch, length, size / 2].
  GraphValue* Cache(GraphValue* angles) {
    const Node* unsqueeze = ProducerOf(angles, "Unsqueeze");
    Dims shape = *angles->type().shape;
    const DType dtype = angles->type().dtype;
    if (shape.size() == 4) {
      const Dims without_heads = {shape[0], shape[2], shape[3]};
      const GraphValue* before = unsqueeze != nullptr ? unsqueeze->input(0) : nullptr;
      if (before != nullptr && before->type().has_rank() && *before->type().shape == without_heads) {
        angles = unsqueeze->input(0);
        shape = without_heads;
      }
    }
    const int64_t size = shape.back().value();
    const bool halves = rotation_.pairing == Pairing::kHalves;
    shape.back() = size / 2;
    GraphValue* v =
        Add("Slice", 13,
            {angles, Numbers({0}), Numbers({halves ? size / 2 : size}), Numbers({-1}), Numbers({halves ? 1 : 2})},
            ValueType::Tensor(dtype, shape));
    const Dim batch = (*rotation_.x->type().shape)[0];
    if (shape.size() == 4) {
      shape.erase(shape.begin() + 1);
      v = Add("Squeeze", 13, {v, Numbers({1})}, ValueType::Tensor(dtype, shape));
    } else if (shape.size() == 2) {
      shape.insert(shape.begin(), Dim(1));
      v = Add("Unsqueeze", 13, {v, Numbers({0})}, ValueType::Tensor(dtype, shape));
    }
    if (shape[0] == batch) return v;
    GraphValue* images = Add("Shape", 15, {rotation_.x}, ValueType::Tensor(DType::kI64, Dims{Dim(1)}),
                             {{"start", int64_t{0}}, {"end", int64_t{1}}});
    GraphValue* to = Add("Concat", 13, {images, Numbers({1, 1})}, ValueType::Tensor(DType::kI64, Dims{Dim(3)}),
                         {{"axis", int64_t{0}}});
    shape[0] = batch;
    return Add("Expand", 13, {v, to}, ValueType::Tensor(dtype, std::move(shape)));
  }

  Graph& graph_;
  Node* last_;
  Rotation rotation_;
};

// The rotation whose sum the node is.
std::optional<Rotation> ReadWhole(Node* sum) {
  std::optional<Rotation> r = sum != nullptr ? ReadRotation(*sum) : std::nullopt;
  if (!r || !AreAnglesOf(r->cosines, r->x) || !AreAnglesOf(r->sines, r->x)) return std::nullopt;
  const DType dtype = r->x->type().dtype;
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) return std::nullopt;
  if (!IsAlikeInPairs(r->cosines, r->pairing) || !IsAlikeInPairs(r->sines, r->pairing)) return std::nullopt;
  TakeRest(*r);
  return r;
}

Result<bool> FuseRotation(Graph& graph, Node* n) {
  const std::optional<Rotation> r =
      IsWhole(*n, "Concat") ? ReadWhole(ProducerOf(n->input(0), "Add")) : ReadWhole(IsWhole(*n, "Add") ? n : nullptr);
  if (!r || r->last != n) return false;
  Fuser(graph, *r).Fuse();
  return true;
}

Result<int> Run(Graph& graph, const void* context) {
  return NewestOpset(context) < kRotarySince ? Result<int>(0) : RewriteNodes(graph, FuseRotation);
}

}  // namespace

extern const Pass kFuseRotary = {"fuse_rotary", "rotary embeddings that are written out", Run};

}  // namespace quern
