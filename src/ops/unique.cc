// Unique: the distinct elements, or slices along `axis`, with their first places, the place of each element's value and
// how often each occurs. NaN equals NaN and is greater than every number; complex numbers compare by their real parts
// first.
#include <algorithm>
#include <complex>
#include <numeric>
#include <string>
#include <type_traits>

#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/infer_common.h"
#include "ops/common/sorted_keys.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> shape = c.input_shape(0);
  ValueType values = ValueType::Tensor(c.input_dtype(0)), inverse = ValueType::Tensor(DType::kI64);
  const Dim count = Dim::Unknown();
  inverse.shape = Dims{Dim::Unknown()};
  if (const int64_t* axis = c.node().FindAttribute<int64_t>("axis")) {
    if (shape) {
      QUERN_ASSIGN_OR_RETURN(const int at, NormalizeAxis(c.node(), *axis, static_cast<int>(shape->size())));
      values.shape = *shape;
      (*values.shape)[at] = count;
      inverse.shape = Dims{(*shape)[at]};
    }
  } else {
    values.shape = Dims{count};
    if (shape) inverse.shape = Dims{Product(*shape)};
  }
  c.SetOutputType(0, std::move(values));
  c.SetOutputType(1, ValueType::Tensor(DType::kI64, Dims{count}));
  c.SetOutputType(2, std::move(inverse));
  c.SetOutputType(3, ValueType::Tensor(DType::kI64, Dims{count}));
  return OkStatus();
}

// Less than 0, 0, more than 0: a before, equal to, after b.
template <typename T>
int Compare(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a || b != b) return static_cast<int>(a != a) - static_cast<int>(b != b);
  }
  return static_cast<int>(b < a) - static_cast<int>(a < b);
}
template <typename T>
int Compare(const std::complex<T>& a, const std::complex<T>& b) {
  const int real = Compare(a.real(), b.real());
  return real != 0 ? real : Compare(a.imag(), b.imag());
}
int Compare(Float16 a, Float16 b) { return Compare(static_cast<float>(a), static_cast<float>(b)); }
int Compare(BFloat16 a, BFloat16 b) { return Compare(static_cast<float>(a), static_cast<float>(b)); }

// `count` slices: element e of slice s stands at (e / inner * count + s) * inner + e % inner.
struct Slices {
  int64_t count, elements, inner;
  int64_t Offset(int64_t slice, int64_t element) const {
    return (element / inner * count + slice) * inner + element % inner;
  }
};

// The groups of equal slices: each one's first slice and size, and the group of every slice.
struct Groups {
  std::vector<int64_t> first, size, of_slice;
};

template <typename T>
constexpr bool kHasKeys = std::is_arithmetic_v<T> || std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// The slices by rising content, equal ones as they come.
template <typename T, typename F>
std::vector<int64_t> Sorted(const T* x, const Slices& slices, F compare) {
  const auto n = static_cast<size_t>(slices.count);
  std::vector<int64_t> order(n);
  if constexpr (kHasKeys<T>) {
    if (slices.elements == 1) {
      std::vector<KeyedIndex> entries(n), spare(n);
      for (size_t i = 0; i < n; ++i) entries[i] = {OrderedKey(x[i]), static_cast<int64_t>(i)};
      SortByKey(entries.data(), spare.data(), slices.count, kKeyBytes<T>);
      for (size_t i = 0; i < n; ++i) order[i] = entries[i].index;
      return order;
    }
  }
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const int sign = compare(a, b);
    return sign != 0 ? sign < 0 : a < b;
  });
  return order;
}

template <typename T>
Groups FindGroups(const T* x, const Slices& slices, bool sorted) {
  const auto compare = [&](int64_t a, int64_t b) {
    if (slices.elements == 1) return Compare(x[a], x[b]);
    for (int64_t e = 0; e < slices.elements; ++e) {
      if (const int order = Compare(x[slices.Offset(a, e)], x[slices.Offset(b, e)]); order != 0) return order;
    }
    return 0;
  };
  const std::vector<int64_t> order = Sorted(x, slices, compare);
  Groups groups;
  groups.of_slice.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || compare(order[i - 1], order[i]) != 0) {
      groups.first.push_back(order[i]);
      groups.size.push_back(0);
    }
    ++groups.size.back();
    groups.of_slice[order[i]] = static_cast<int64_t>(groups.first.size()) - 1;
  }
  if (sorted) return groups;
  // By first occurrence: groups get their numbers as the slices come.
  Groups by_place;
  std::vector<int64_t> number(groups.first.size());
  for (int64_t s = 0; s < slices.count; ++s) {
    const int64_t group = groups.of_slice[s];
    if (groups.first[group] == s) {
      number[group] = static_cast<int64_t>(by_place.first.size());
      by_place.first.push_back(s);
      by_place.size.push_back(groups.size[group]);
    }
    by_place.of_slice.push_back(number[group]);
  }
  return by_place;
}

Result<Groups> FindGroups(EvalContext& c, const Slices& slices, bool sorted) {
  const Value& value = c.input_value(0);
  if (value.kind() == ValueKind::kStringTensor) return FindGroups(value.strings().values.data(), slices, sorted);
  const Tensor& t = c.input(0);
  if (t.dtype() == DType::kC64) {
    return FindGroups(static_cast<const std::complex<float>*>(t.raw_data()), slices, sorted);
  }
  if (t.dtype() == DType::kC128) {
    return FindGroups(static_cast<const std::complex<double>*>(t.raw_data()), slices, sorted);
  }
  Groups groups;
  using List = Types<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                     uint64_t, bool>;
  const Status status = DispatchType(List{}, t.dtype(), [&]<typename T>() {
    groups = FindGroups(t.data<T>(), slices, sorted);
    return OkStatus();
  });
  if (!status.ok()) return status.WithContext(c.node().Describe());
  return groups;
}

// Output i, when the node has it: a vector of these numbers.
Status WriteNumbers(EvalContext& c, int i, const std::vector<int64_t>& numbers) {
  if (!c.HasOutput(i)) return OkStatus();
  QUERN_ASSIGN_OR_RETURN(const Tensor t, c.AllocateOutput(i, DType::kI64, Shape{static_cast<int64_t>(numbers.size())}));
  std::copy(numbers.begin(), numbers.end(), t.data<int64_t>());
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const ElementInput x, ElementInput::Make(c, 0));
  Shape shape = x.shape();
  int axis = 0;
  if (const int64_t* given = c.node().FindAttribute<int64_t>("axis")) {
    QUERN_ASSIGN_OR_RETURN(axis, NormalizeAxis(c.node(), *given, shape.rank()));
  } else {
    shape = Shape{x.num_elements()};
  }
  const int64_t outer = shape.num_elements(0, axis), inner = shape.num_elements(axis + 1, shape.rank());
  const Slices slices{shape[axis], outer * inner, inner};
  if (slices.elements == 0 && slices.count > 0) {
    return c.Error("slices of shape " + x.shape().ToString() + " along axis " + std::to_string(axis) +
                   " have no elements to compare");
  }
  QUERN_ASSIGN_OR_RETURN(const Groups groups, FindGroups(c, slices, c.node().GetInt("sorted", 1) != 0));
  const int64_t count = static_cast<int64_t>(groups.first.size());
  shape[axis] = count;
  QUERN_ASSIGN_OR_RETURN(ElementOutput y, ElementOutput::Make(c, 0, x.dtype(), shape));
  QUERN_RETURN_IF_ERROR(DispatchElements(x.dtype(), [&]<typename T>() {
    const Slices chosen{count, slices.elements, inner};
    for (int64_t g = 0; g < count; ++g) {
      for (int64_t e = 0; e < slices.elements; ++e) {
        y.data<T>()[chosen.Offset(g, e)] = x.data<T>()[slices.Offset(groups.first[g], e)];
      }
    }
    return OkStatus();
  }));
  QUERN_RETURN_IF_ERROR(y.Finish());
  QUERN_RETURN_IF_ERROR(WriteNumbers(c, 1, groups.first));
  QUERN_RETURN_IF_ERROR(WriteNumbers(c, 2, groups.of_slice));
  return WriteNumbers(c, 3, groups.size);
}

constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt}, {"sorted", AttrType::kInt, false, "1"}};
template <int kTypesSince>
constexpr Param kInputs[] = {{"X", "T", AnyTypes(kTypesSince)}};
template <int kTypesSince>
constexpr Param kOutputs[] = {{"Y", "T", AnyTypes(kTypesSince)},
                              {"indices", "", kInt64Type, Arity::kOptional},
                              {"inverse_indices", "", kInt64Type, Arity::kOptional},
                              {"counts", "", kInt64Type, Arity::kOptional}};
constexpr OpVersion kVersions[] = {{11, kInputs<11>, kOutputs<11>, kAttributes, Infer, Evaluate},
                                   {28, kInputs<13>, kOutputs<13>, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpUnique = {"", "Unique", kVersions};

}  // namespace quern
