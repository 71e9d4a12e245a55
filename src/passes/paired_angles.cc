#include "passes/paired_angles.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "ops/common/permutation.h"
#include "passes/formula.h"
#include "tensor/tensor.h"

namespace quern {
namespace {

// The known extent of the last dimension, or -1; 1 for a value without dimensions.
int64_t RowOf(const GraphValue* v) {
  if (v == nullptr || !v->type().is_tensor() || !v->type().has_rank()) return -1;
  const Dims& shape = *v->type().shape;
  if (shape.empty()) return 1;
  return shape.back().is_constant() ? shape.back().value() : -1;
}

template <size_t N>
bool IsOneOf(const Node& n, const std::string_view (&ops)[N]) {
  return std::any_of(std::begin(ops), std::end(ops), [&](std::string_view op) { return IsWhole(n, op); });
}

bool IsLastAxis(const Node& n, int64_t axis) { return axis == -1 || axis == n.output(0)->type().rank() - 1; }

class Prover {
 public:
  Prover(int64_t row, Pairing pairing) : row_(row), pairing_(pairing) {}

  bool IsAlike(const GraphValue* v) {
    if (RowOf(v) != row_ || --budget_ < 0) return false;
    if (v->is_constant()) return v->constant()->is_tensor() && IsAlike(v->constant()->tensor());
    const Node* n = v->producer();
    if (n == nullptr || n->output(0) != v) return false;
    static constexpr std::string_view kUnary[] = {"Cast", "Cos", "Identity", "Neg", "Sin"};
    static constexpr std::string_view kBinary[] = {"Add", "Div", "Mul", "Sub"};
    static constexpr std::string_view kOfRows[] = {"Expand", "Reshape", "Slice", "Squeeze", "Unsqueeze"};
    if (IsOneOf(*n, kUnary)) return IsAlike(n->input(0));
    if (IsOneOf(*n, kBinary)) return IsEven(n->input(0)) && IsEven(n->input(1));
    if (IsOneOf(*n, kOfRows)) return Repeats(*n) || IsAlike(n->input(0));
    if (IsWhole(*n, "Concat")) return IsTwice(*n);
    if (IsWhole(*n, "Gather")) return n->GetInt("axis", 0) == 0 && RankOf(n->input(0)) >= 2 && IsAlike(n->input(0));
    if (!IsWhole(*n, "Transpose") || RankOf(n->input(0)) < 1) return false;
    const Result<std::vector<int64_t>> perm = ReadPermutation(*n, RankOf(n->input(0)));
    return perm.ok() && perm->back() == RankOf(n->input(0)) - 1 && IsAlike(n->input(0));
  }

 private:
  static int RankOf(const GraphValue* v) { return v->type().has_rank() ? v->type().rank() : -1; }

  bool IsAlike(const Tensor& t) const {
    if (!t.is_contiguous() || DTypeBytes(t.dtype()) == 0 || t.rank() == 0 || t.shape().back() != row_) return false;
    const auto bytes = static_cast<size_t>(DTypeBytes(t.dtype()));
    const auto* data = static_cast<const std::byte*>(t.raw_data());
    const auto half = static_cast<size_t>(row_) / 2, rows = static_cast<size_t>(t.num_elements() / row_);
    for (size_t r = 0; r < rows; ++r, data += 2 * half * bytes) {
      if (pairing_ == Pairing::kHalves) {
        if (std::memcmp(data, data + half * bytes, half * bytes) != 0) return false;
        continue;
      }
      for (size_t i = 0; i < half; ++i) {
        if (std::memcmp(data + 2 * i * bytes, data + (2 * i + 1) * bytes, bytes) != 0) return false;
      }
    }
    return true;
  }
  // The same number all along a row does no harm.
  bool IsEven(const GraphValue* v) { return RowOf(v) == 1 || IsAlike(v); }
  bool IsTwice(const Node& concat) const {
    return pairing_ == Pairing::kHalves && concat.num_inputs() == 2 && concat.input(0) == concat.input(1) &&
           IsLastAxis(concat, concat.GetInt("axis", 0));
  }
  // Whether a Reshape flattens [..., row / 2, 2], whose last dimension is one number twice.
  bool Repeats(const Node& n) const {
    const GraphValue* pairs = n.input(0);
    if (pairing_ != Pairing::kNeighbours || !IsWhole(n, "Reshape") || RowOf(pairs) != 2 || RankOf(pairs) < 2) {
      return false;
    }
    if (!(*pairs->type().shape)[pairs->type().shape->size() - 2].is_constant(row_ / 2)) return false;
    const Node *expand = ProducerOf(pairs, "Expand"), *tile = ProducerOf(pairs, "Tile");
    const Node *repeated = expand != nullptr ? expand : tile, *concat = ProducerOf(pairs, "Concat");
    if (repeated != nullptr) return RowOf(repeated->input(0)) == 1;
    return concat != nullptr && concat->num_inputs() == 2 && concat->input(0) == concat->input(1) &&
           IsLastAxis(*concat, concat->GetInt("axis", 0));
  }

  int64_t row_;
  Pairing pairing_;
  int budget_ = 64;  // of values looked at: sums of sums may refer to the same ones again and again
};

}  // namespace

bool IsAlikeInPairs(const GraphValue* v, Pairing pairing) {
  const int64_t row = RowOf(v);
  return row >= 2 && row % 2 == 0 && Prover(row, pairing).IsAlike(v);
}

}  // namespace quern
