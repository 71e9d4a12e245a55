#include "passes/rotation.h"

#include "passes/formula.h"

namespace quern {
namespace {

constexpr int64_t kMostExtent = int64_t{1} << 31;

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

// Of four dimensions, with a known size of the last one.
bool HasKnownSize(const GraphValue* x) {
  return x->type().is_tensor() && x->type().has_rank() && x->type().rank() == 4 &&
         IsSmallExtent(x->type().shape->back());
}

// x * cosines + turned x * sines
std::optional<Rotation> ReadSum(Node& sum) {
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

bool IsProductOf(const GraphValue* v, const GraphValue* a, const GraphValue* b) {
  const Node* mul = HasOneReader(v) ? ProducerOf(v, "Mul") : nullptr;
  return mul != nullptr && ((mul->input(0) == a && mul->input(1) == b) || (mul->input(0) == b && mul->input(1) == a));
}

// Concat(a * cosines - b * sines, b * cosines + a * sines) of the halves a and b of x
std::optional<Rotation> ReadHalves(Node& join) {
  if (join.num_inputs() != 2 || join.input(1) == nullptr || !IsLastAxis(join.GetInt("axis", 0), 4)) return std::nullopt;
  const Node* real = HasOneReader(join.input(0)) ? ProducerOf(join.input(0), "Sub") : nullptr;
  const Node* imaginary = HasOneReader(join.input(1)) ? ProducerOf(join.input(1), "Add") : nullptr;
  if (real == nullptr || imaginary == nullptr) return std::nullopt;
  const Node* p = HasOneReader(real->input(0)) ? ProducerOf(real->input(0), "Mul") : nullptr;
  const Node* q = HasOneReader(real->input(1)) ? ProducerOf(real->input(1), "Mul") : nullptr;
  for (int i = 0; p != nullptr && q != nullptr && i < 4; ++i) {
    GraphValue *a = p->input(i / 2), *b = q->input(i % 2);
    GraphValue *cosines = p->input(1 - i / 2), *sines = q->input(1 - i % 2);
    GraphValue* x = a->producer() != nullptr ? a->producer()->input(0) : nullptr;
    if (x == nullptr || !HasKnownSize(x) || x->type().shape->back().value() % 2 != 0) continue;
    if (!IsPart(a, x, false, Pairing::kHalves) || !IsPart(b, x, true, Pairing::kHalves)) continue;
    for (int j = 0; j < 2; ++j) {
      if (IsProductOf(imaginary->input(j), b, cosines) && IsProductOf(imaginary->input(1 - j), a, sines)) {
        return Rotation{
            .x = x, .cosines = cosines, .sines = sines, .pairing = Pairing::kHalves, .last = &join, .is_half = true};
      }
    }
  }
  return std::nullopt;
}

// Whether the last dimensions of x hold angles in that order, and as many as there are elements or pairs of them.
bool AreAnglesOf(const GraphValue* angles, const Rotation& r, HeadOrder order) {
  const ValueType& type = angles->type();
  if (!type.is_tensor() || type.dtype != r.x->type().dtype || !type.has_rank()) return false;
  const Dims &shape = *type.shape, &to = *r.x->type().shape;
  const size_t rank = shape.size();
  if (rank < 2 || rank > 4 || !shape.back().is_constant(to[3].value() / (r.is_half ? 2 : 1))) return false;
  if (rank == 4 && !shape[0].is_constant(1) && !(shape[0] == to[0])) return false;
  if (order == HeadOrder::kLengthFirst) return rank > 2 && shape[rank - 2].is_constant(1) && shape[rank - 3] == to[1];
  return shape[rank - 2] == to[2] && (rank == 2 || shape[rank - 3].is_constant(1));
}

std::optional<HeadOrder> OrderOf(const Rotation& r) {
  for (const HeadOrder order : {HeadOrder::kHeadsFirst, HeadOrder::kLengthFirst}) {
    if (AreAnglesOf(r.cosines, r, order) && AreAnglesOf(r.sines, r, order)) return order;
  }
  return std::nullopt;
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

}  // namespace

bool IsSmallExtent(const Dim& d) { return d.is_constant() && d.value() > 0 && d.value() <= kMostExtent; }

std::optional<Rotation> ReadRotation(Node* n) {
  std::optional<Rotation> r;
  if (IsWhole(*n, "Add")) r = ReadSum(*n);
  if (IsWhole(*n, "Concat")) r = ReadHalves(*n);
  if (!r) return std::nullopt;
  const DType dtype = r->x->type().dtype;
  const std::optional<HeadOrder> order = OrderOf(*r);
  if (!order || (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16)) return std::nullopt;
  if (!r->is_half && (!IsAlikeInPairs(r->cosines, r->pairing) || !IsAlikeInPairs(r->sines, r->pairing))) {
    return std::nullopt;
  }
  r->order = *order;
  TakeRest(*r);
  return r;
}

}  // namespace quern
