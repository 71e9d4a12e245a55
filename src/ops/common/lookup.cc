#include "ops/common/lookup.h"

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>

#include "ops/common/dispatch.h"
#include "ops/common/elements.h"

namespace quern {
namespace {

// What stands for a key in the table: equal for keys that count as equal.
const std::string& KeyOf(const std::string& key) { return key; }
template <typename T>
uint64_t KeyOf(T key) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(key);
  } else {
    const double wide = std::isnan(key) ? std::numeric_limits<double>::quiet_NaN() : double{key};
    return std::bit_cast<uint64_t>(wide == 0 ? 0.0 : wide);
  }
}

// For each element of `input` its place among the keys, or -1.
template <typename T>
std::vector<int64_t> Places(std::span<const T> keys, std::span<const T> input, bool first_counts) {
  std::unordered_map<std::remove_cvref_t<decltype(KeyOf(keys[0]))>, int64_t> table;
  for (size_t i = 0; i < keys.size(); ++i) {
    int64_t& place = table.try_emplace(KeyOf(keys[i]), static_cast<int64_t>(i)).first->second;
    if (!first_counts) place = static_cast<int64_t>(i);
  }
  std::vector<int64_t> places;
  places.reserve(input.size());
  for (const T& x : input) {
    const auto found = table.find(KeyOf(x));
    places.push_back(found == table.end() ? -1 : found->second);
  }
  return places;
}

}  // namespace

Status EvaluateLookup(EvalContext& c, const Lookup& lookup) {
  const Value& x = c.input_value(0);
  const DType key_type = ElementTypeOf(lookup.keys), value_type = ElementTypeOf(lookup.values);
  const int64_t count = ShapeOf(lookup.keys).num_elements();
  if (ElementTypeOf(x) != key_type) {
    return c.Error(std::string("the input has element type ") + DTypeName(ElementTypeOf(x)) + ", the keys have " +
                   DTypeName(key_type));
  }
  if (ShapeOf(lookup.values).num_elements() != count) {
    return c.Error(std::to_string(count) + " keys and " + std::to_string(ShapeOf(lookup.values).num_elements()) +
                   " values are given, they must be as many");
  }
  if (ElementTypeOf(lookup.otherwise) != value_type || ShapeOf(lookup.otherwise).num_elements() != 1) {
    return c.Error(std::string("the default must be one element of type ") + DTypeName(value_type) +
                   ", the type of the values");
  }
  std::vector<int64_t> places;
  if (key_type == DType::kString) {
    places = Places<std::string>(lookup.keys.strings().values, x.strings().values, lookup.first_counts);
  } else {
    QUERN_ASSIGN_OR_RETURN(const Tensor keys, lookup.keys.tensor().Contiguous());
    QUERN_RETURN_IF_ERROR(DispatchType(Types<float, double, int64_t, int32_t, int16_t>{}, key_type, [&]<typename T>() {
                            places = Places<T>(keys.values<T>(), x.tensor().values<T>(), lookup.first_counts);
                            return OkStatus();
                          }).WithContext(c.node().Describe()));
  }
  QUERN_ASSIGN_OR_RETURN(const ElementInput values, ElementInput::Make(lookup.values));
  QUERN_ASSIGN_OR_RETURN(const ElementInput otherwise, ElementInput::Make(lookup.otherwise));
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, value_type, ShapeOf(x)));
  QUERN_RETURN_IF_ERROR(DispatchElements(value_type, [&]<typename T>() {
    T* y = out.data<T>();
    for (const int64_t place : places) *y++ = place < 0 ? *otherwise.data<T>() : values.data<T>()[place];
    return OkStatus();
  }));
  return out.Finish();
}

Value ListValue(std::span<const int64_t> list) {
  return Tensor::FromValues<int64_t>(Shape{static_cast<int64_t>(list.size())}, list);
}
Value ListValue(std::span<const float> list) {
  return Tensor::FromValues<float>(Shape{static_cast<int64_t>(list.size())}, list);
}
Value ListValue(std::span<const std::string> list) {
  return StringTensor{Shape{static_cast<int64_t>(list.size())}, {list.begin(), list.end()}};
}

}  // namespace quern
