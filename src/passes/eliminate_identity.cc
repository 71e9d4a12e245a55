// Nodes that give back their input go:
//   %a = Identity(%x)   %y = Relu(%a)                            ->  %y = Relu(%x)
//   %y = Reshape(%x: f32[n,3], %s): f32[n,3],  Mul(%x, 1), Add(%x, -0.0), Transpose with [0,1,..], Concat of one, ...
// Only where every bit, the type and the shape stay the same (x + 0.0 turns -0.0 into 0.0: not removed). An Identity
// from a graph input to a graph output stays: both names are the model's interface.
#include <algorithm>
#include <cstring>

#include "graph/rewriter.h"
#include "ops/common/permutation.h"
#include "passes/passes.h"

namespace quern {
namespace {

// Known to be equal, extent by extent.
bool SameShape(const GraphValue* a, const GraphValue* b) {
  return a->type().is_tensor() && b->type().is_tensor() && a->type().has_rank() && b->type().has_rank() &&
         *a->type().shape == *b->type().shape;
}
bool SameDType(const GraphValue* a, const GraphValue* b) {
  return a->type().dtype == b->type().dtype && a->type().dtype != DType::kUndefined;
}

const Tensor* ConstantTensor(const GraphValue* v) {
  return v != nullptr && v->is_constant() && v->constant()->is_tensor() ? &v->constant()->tensor() : nullptr;
}

std::optional<std::vector<int64_t>> ConstantInts(const GraphValue* v) {
  const Tensor* t = ConstantTensor(v);
  if (t == nullptr || !t->is_contiguous() || !IsIntegerType(t->dtype()) || DTypeBytes(t->dtype()) == 0) {
    return std::nullopt;
  }
  Result<std::vector<int64_t>> values = ToInt64s(*t);
  if (!values.ok()) return std::nullopt;
  return std::move(values).value();
}

bool AllEqual(const std::vector<int64_t>& values, int64_t x) {
  return std::all_of(values.begin(), values.end(), [x](int64_t v) { return v == x; });
}

// Whether every element has exactly the bits of `value` in its type.
template <typename T>
bool AllAre(const Tensor& t, T value) {
  const std::span<T> elements = t.values<T>();
  return std::all_of(elements.begin(), elements.end(),
                     [&](const T& e) { return std::memcmp(&e, &value, sizeof e) == 0; });
}
bool AllAre(const GraphValue* v, double value) {
  const Tensor* t = ConstantTensor(v);
  // A long vector of ones is nothing that exporters write; it would be read at every round.
  if (t == nullptr || !t->is_contiguous() || t->num_elements() > 4096) return false;
  switch (t->dtype()) {
    case DType::kF32:
      return AllAre(*t, static_cast<float>(value));
    case DType::kF64:
      return AllAre(*t, value);
    case DType::kF16:
      return AllAre(*t, Float16(static_cast<float>(value)));
    case DType::kBF16:
      return AllAre(*t, BFloat16(static_cast<float>(value)));
    case DType::kI64:
    case DType::kI32:
    case DType::kI16:
    case DType::kI8:
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64:
      return AllEqual(ConstantInts(v).value_or(std::vector<int64_t>{INT64_MIN}), static_cast<int64_t>(value));
    default:
      return false;
  }
}

bool IsFalse(const GraphValue* v) {
  const Tensor* t = ConstantTensor(v);
  return t != nullptr && t->dtype() == DType::kBool && t->num_elements() == 1 &&
         *static_cast<const uint8_t*>(t->raw_data()) == 0;
}

bool IsFullSlice(const Node& n) {
  std::vector<int64_t> starts, ends, steps;
  if (n.opset() < 10) {
    starts = n.GetInts("starts");
    ends = n.GetInts("ends");
  } else {
    const auto s = ConstantInts(n.input(1)), e = ConstantInts(n.input(2));
    const auto k = n.input(4) == nullptr ? std::vector<int64_t>{} : ConstantInts(n.input(4));
    // With steps of 1 a result as long as the input is the input, whatever the ends say.
    if (k && AllEqual(*k, 1) && SameShape(n.input(0), n.output(0))) return true;
    if (!s || !e || !k) return false;
    starts = *s;
    ends = *e;
    steps = *k;
  }
  return !starts.empty() && starts.size() == ends.size() && AllEqual(starts, 0) && AllEqual(steps, 1) &&
         std::all_of(ends.begin(), ends.end(), [](int64_t e) { return e >= INT32_MAX; });
}

bool IsIdentityPermutation(const Node& n) {
  if (!n.input(0)->type().has_rank()) return false;
  const Result<std::vector<int64_t>> perm = ReadPermutation(n, n.input(0)->type().rank());
  return perm.ok() && std::is_sorted(perm->begin(), perm->end());
}

bool HasZeroPads(const Node& n) {
  std::optional<std::vector<int64_t>> pads;
  if (n.opset() >= 11) {
    pads = ConstantInts(n.input(1));
  } else {
    pads = n.GetInts(n.opset() >= 2 ? "pads" : "paddings");
  }
  return pads && !pads->empty() && AllEqual(*pads, 0);
}

bool OnlyOutputZeroUsed(const Node& n) {
  for (int i = 1; i < n.num_outputs(); ++i) {
    if (n.output(i) != nullptr && !n.output(i)->uses().empty()) return false;
  }
  return true;
}

// The input that output 0 always equals, or null.
GraphValue* EqualInput(const Node& n) {
  GraphValue *x = n.input(0), *y = n.output(0);
  if (!n.domain().empty() || x == nullptr || y == nullptr || !OnlyOutputZeroUsed(n)) return nullptr;
  const std::string& op = n.op_type();
  if (op == "Identity") return x;
  if (op == "Dropout") {
    if (n.opset() >= 12) return n.input(2) == nullptr || IsFalse(n.input(2)) ? x : nullptr;
    return n.opset() >= 7 || n.GetInt("is_test", 0) != 0 ? x : nullptr;
  }
  if (op == "Cast") {
    return x->type().is_tensor() && n.GetInt("to", 0) == static_cast<int64_t>(x->type().dtype) &&
                   x->type().dtype != DType::kUndefined
               ? x
               : nullptr;
  }
  if (op == "CastLike") return n.input(1) != nullptr && SameDType(x, n.input(1)) ? x : nullptr;
  if (op == "Reshape" || op == "Flatten" || op == "Squeeze" || op == "Unsqueeze" || op == "Expand") {
    return SameShape(x, y) ? x : nullptr;
  }
  if (op == "Transpose") return IsIdentityPermutation(n) ? x : nullptr;
  if (op == "Concat" || op == "Sum" || op == "Max" || op == "Min" || op == "Mean")
    return n.num_inputs() == 1 ? x : nullptr;
  if (op == "Pad") return HasZeroPads(n) ? x : nullptr;
  if (op == "Slice") return IsFullSlice(n) ? x : nullptr;
  const bool add = op == "Add", mul = op == "Mul";
  if (add || mul || op == "Sub" || op == "Div") {
    GraphValue* other = n.input(1);
    if (other == nullptr || n.GetInt("broadcast", 0) != 0) return nullptr;
    // -0.0 + -0.0 and -0.0 - 0.0 are -0.0; integers have one zero.
    const double neutral = add ? -0.0 : op == "Sub" ? 0.0 : 1.0;
    if (AllAre(other, neutral) && SameShape(x, y)) return x;
    if ((add || mul) && AllAre(x, neutral) && SameShape(other, y)) return other;
  }
  return nullptr;
}

Result<bool> Eliminate(Graph& graph, Node* n) {
  GraphValue* x = EqualInput(*n);
  if (x == nullptr || n->output(0)->uses().empty() || !ReplaceValue(graph, n->output(0), x)) return false;
  RemoveDead(graph, n);
  return true;
}

Result<int> Run(Graph& graph, const void*) { return RewriteNodes(graph, Eliminate); }

}  // namespace

extern const Pass kEliminateIdentity = {"eliminate_identity", "remove nodes that give back their input", Run};

}  // namespace quern
