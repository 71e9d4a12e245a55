#include "passes/attention_scores.h"

#include <algorithm>
#include <cmath>

#include "passes/formula.h"
#include "tensor/tensor.h"

namespace quern {
namespace {

constexpr int kMaxDepth = 16;                        // exporters need six
constexpr double kHides = -10000;                    // what GPT-2 and BERT give to keys that are not seen
constexpr int64_t kMostElements = int64_t{1} << 22;  // of a constant mask that is looked at: 2048 tokens

bool HoldsBits(const Tensor& t) {
  if (t.dtype() != DType::kF32 || !t.is_contiguous() || t.num_elements() > kMostElements) return false;
  const std::span<const float> values = t.values<float>();
  return std::all_of(values.begin(), values.end(), [](float x) { return x == 0 || x == 1; });
}

// Whether every element is known to be 0 or 1: a constant, or booleans, moved around.
bool IsZeroOrOne(const GraphValue* v, int depth = 0) {
  if (v->is_constant()) return v->constant()->is_tensor() && HoldsBits(v->constant()->tensor());
  const Node* n = v->producer();
  if (n == nullptr || depth == kMaxDepth || n->input(0) == nullptr) return false;
  if (n->Is("Cast")) return n->input(0)->type().dtype == DType::kBool;
  for (const char* mover : {"Slice", "Unsqueeze", "Squeeze", "Reshape", "Expand", "Transpose", "Gather"}) {
    if (n->Is(mover)) return IsZeroOrOne(n->input(0), depth + 1);
  }
  return false;
}

// Whether sign * rest is 0 where the bits are 1 and hides where they are 0: rest = (1 - bits) * number.
bool HidesZeros(GraphValue* rest, GraphValue* bits, double sign) {
  const Factored p = FactorsOf(rest);
  if (p.number * sign > kHides || p.factors.size() != 1) return false;
  const Node* complement = ProducerOf(p.factors[0], "Sub");
  return complement != nullptr && complement->input(1) == bits && ScalarOf(complement->input(0), 16) == 1.0 &&
         IsZeroOrOne(bits);
}

// The same of constants, which were folded.
bool HidesConstantZeros(const GraphValue* rest, const GraphValue* bits, double sign) {
  for (const GraphValue* v : {rest, bits}) {
    if (!v->is_constant() || !v->constant()->is_tensor()) return false;
  }
  const Tensor &r = rest->constant()->tensor(), &b = bits->constant()->tensor();
  if (r.shape() != b.shape() || r.dtype() != DType::kF32 || !r.is_contiguous() || !HoldsBits(b)) return false;
  for (int64_t i = 0; i < r.num_elements(); ++i) {
    const double added = sign * static_cast<double>(r.data<float>()[i]);
    if (b.data<float>()[i] == 1 ? added != 0 : !(added <= kHides)) return false;
  }
  return true;
}

std::optional<AttentionScores> Read(GraphValue* v, int depth);

// The scores as one of a node's first two operands, and the other operand.
struct Operands {
  AttentionScores scores;
  GraphValue* other;
};
std::optional<Operands> ReadOperand(const Node& n, int most, int depth) {
  for (int i = 0; i < most; ++i) {
    if (auto s = Read(n.input(i), depth)) return Operands{*std::move(s), n.input(1 - i)};
  }
  return std::nullopt;
}

// scores * bits, where `rest` is added or subtracted next and hides what becomes zero.
std::optional<Operands> ReadBits(GraphValue* v, GraphValue* rest, double sign, int depth) {
  const Node* mul = HasOneReader(v) ? ProducerOf(v, "Mul") : nullptr;
  if (mul == nullptr) return std::nullopt;
  auto found = ReadOperand(*mul, 2, depth);
  if (!found || !(HidesZeros(rest, found->other, sign) || HidesConstantZeros(rest, found->other, sign))) {
    return std::nullopt;
  }
  found->other = rest;
  return found;
}

std::optional<AttentionScores> ReadSum(const Node& n, double sign, const Dims& dims, int depth) {
  const int sides = sign > 0 ? 2 : 1;  // only what is subtracted may be a mask
  auto found = ReadOperand(n, sides, depth);
  for (int i = 0; !found && i < sides; ++i) found = ReadBits(n.input(i), n.input(1 - i), sign, depth);
  if (!found) return std::nullopt;
  found->scores.terms.push_back({MaskTerm::Kind::kAdded, found->other, sign, dims});
  return found->scores;
}

std::optional<AttentionScores> ReadChoice(const Node& n, const Dims& dims, int depth) {
  GraphValue* condition = n.input(0);
  if (condition->type().dtype != DType::kBool) return std::nullopt;
  for (int i = 1; i <= 2; ++i) {
    const auto number = ScalarOf(n.input(3 - i), static_cast<int>(dims.size()));
    if (!number || !(*number <= kHides)) continue;
    auto s = Read(n.input(i), depth);
    if (!s) return std::nullopt;
    s->terms.push_back({i == 1 ? MaskTerm::Kind::kSeen : MaskTerm::Kind::kHidden, condition, *number, dims});
    return s;
  }
  return std::nullopt;
}

// Scores are multiplied behind the masks, too.
std::optional<AttentionScores> ReadScaled(GraphValue* v, int depth) {
  double scale = 1;
  GraphValue* inner = WithoutScale(v, &scale);
  auto s = inner != v ? Read(inner, depth) : std::nullopt;
  if (!s) return std::nullopt;
  s->scale *= scale;
  for (MaskTerm& t : s->terms) {
    t.number *= scale;
    if (t.kind != MaskTerm::Kind::kAdded && !(t.number <= kHides)) return std::nullopt;
  }
  return s;
}

std::optional<AttentionScores> Read(GraphValue* v, int depth) {
  if (depth == kMaxDepth || !HasOneReader(v) || !v->type().is_tensor() || !v->type().has_rank()) return std::nullopt;
  if (Node* product = ProducerOf(v, "MatMul")) {
    AttentionScores s;
    s.product = product;
    return s;
  }
  if (auto s = ReadScaled(v, depth + 1)) return s;
  GraphValue *wide = ReshapedFrom(v), *cast = CastFrom(v);
  if (wide != nullptr || cast != nullptr) {
    auto s = Read(wide != nullptr ? wide : cast, depth + 1);
    if (s) (wide != nullptr ? s->is_reshaped : s->is_cast) = true;
    return s;
  }
  const Dims& dims = *v->type().shape;
  if (const Node* add = ProducerOf(v, "Add")) return ReadSum(*add, 1, dims, depth + 1);
  if (const Node* sub = ProducerOf(v, "Sub")) return ReadSum(*sub, -1, dims, depth + 1);
  if (const Node* where = ProducerOf(v, "Where")) return ReadChoice(*where, dims, depth + 1);
  return std::nullopt;
}

}  // namespace

std::optional<AttentionScores> ReadScores(GraphValue* v) { return Read(v, 0); }

GraphValue* WithoutScale(GraphValue* v, double* scale) {
  while (HasOneReader(v) && v->type().has_rank()) {
    const int rank = v->type().rank();
    if (const Node* n = ProducerOf(v, "Mul")) {
      const auto left = ScalarOf(n->input(0), rank), right = ScalarOf(n->input(1), rank);
      if (!left && !right) break;
      *scale *= left ? *left : *right;
      v = n->input(left ? 1 : 0);
    } else if (const Node* d = ProducerOf(v, "Div")) {
      const auto divisor = ScalarOf(d->input(1), rank);
      if (!divisor || *divisor == 0) break;
      *scale /= *divisor;
      v = d->input(0);
    } else {
      break;
    }
  }
  return v;
}

GraphValue* ReshapedFrom(const GraphValue* v) {
  const Node* n = HasOneReader(v) ? ProducerOf(v, "Reshape") : nullptr;
  if (n == nullptr || !n->input(0)->type().has_rank() || !v->type().has_rank()) return nullptr;
  const Dims &from = *n->input(0)->type().shape, &to = *v->type().shape;
  return !from.empty() && !to.empty() && from.back() == to.back() ? n->input(0) : nullptr;
}

GraphValue* CastFrom(const GraphValue* v) {
  const Node* n = HasOneReader(v) ? ProducerOf(v, "Cast") : nullptr;
  if (n == nullptr || !IsFloatType(v->type().dtype) || !IsFloatType(n->input(0)->type().dtype)) return nullptr;
  return n->input(0);
}

}  // namespace quern
