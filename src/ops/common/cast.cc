#include "ops/common/cast.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>

#include "base/round_to_odd.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/infer_common.h"
#include "ops/common/small_types.h"

namespace quern {
namespace {

using CastList = Types<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                       uint64_t, bool>;

// The type that stands for `t` here: small floats and integers are converted through wider ones that hold them all.
DType CarrierOf(DType t) { return IsSmallFloat(t) ? DType::kF32 : IsSmallInteger(t) ? DType::kI8 : t; }

constexpr int kNewestTypes = 28;  // the operator set that brought the last types
constexpr int64_t kChunk = 1024;  // elements that are converted at a time

// Floats to integers: fractions are cut off. Values that do not fit are not defined by the specification; here 32- and
// 64-bit targets give the most negative number (as x86 does on every CPU), smaller ones keep the low bits.
template <typename To, typename From>
To FloatToInteger(From x) {
  if constexpr (std::is_same_v<To, uint64_t>) {
    if (x >= static_cast<From>(9223372036854775808.0) && x < static_cast<From>(18446744073709551616.0)) {
      return static_cast<uint64_t>(x);
    }
  }
  const bool fits = x >= static_cast<From>(-9223372036854775808.0) && x < static_cast<From>(9223372036854775808.0);
  const int64_t wide = fits ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min();
  if constexpr (std::is_same_v<To, int32_t>) {
    const bool small = wide >= std::numeric_limits<int32_t>::min() && wide <= std::numeric_limits<int32_t>::max();
    return small ? static_cast<int32_t>(wide) : std::numeric_limits<int32_t>::min();
  }
  return static_cast<To>(wide);
}

// A float that rounds to any type of 16 bits or fewer as `v` does.
template <typename From>
float ForRounding(From v) {
  if constexpr (std::is_same_v<From, double> || (std::is_integral_v<From> && sizeof(From) >= 4)) {
    return RoundToOdd(v);
  } else {
    return static_cast<float>(v);
  }
}

template <typename To, typename From>
To Convert(From v) {
  const auto x = static_cast<ComputeType<From>>(v);
  using X = std::remove_cv_t<decltype(x)>;
  if constexpr (std::is_same_v<To, bool>) {
    return x != X{};
  } else if constexpr (std::is_same_v<To, Float16> || std::is_same_v<To, BFloat16>) {
    return To(ForRounding(v));
  } else if constexpr (std::is_floating_point_v<X> && std::is_integral_v<To>) {
    return FloatToInteger<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// Whether a decimal number that is too large or too small for its type is the latter.
bool IsTiny(std::string_view text) {
  const size_t e = std::min(text.find_first_of("eE"), text.size());
  const size_t point = std::min(text.find('.'), e), digit = std::min(text.find_first_of("123456789"), e);
  int64_t exponent = 0;
  const size_t from = e + 1 + (e + 1 < text.size() && text[e + 1] == '+');
  if (e < text.size()) {
    const auto parsed = std::from_chars(text.data() + from, text.data() + text.size(), exponent);
    if (parsed.ec == std::errc::result_out_of_range) return text[from] == '-';
  }
  const int64_t magnitude = static_cast<int64_t>(point) - static_cast<int64_t>(digit);  // digits before the point
  return exponent < -magnitude;
}

// The whole text as a number: decimal or scientific, "NaN", "INF" with a sign, in any case.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  T x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    if constexpr (std::is_integral_v<T>) return std::nullopt;
    const T size = IsTiny(text) ? T{0} : std::numeric_limits<T>::infinity();
    return text.starts_with('-') ? -size : size;
  }
  return error == std::errc() ? std::optional<T>(x) : std::nullopt;
}

template <typename To>
std::optional<To> FromText(const std::string& text) {
  if constexpr (std::is_same_v<To, float>) return ParseNumber<float>(text);
  if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool>) {
    if (const std::optional<To> exact = ParseNumber<To>(text)) return exact;
  }
  const std::optional<double> x = ParseNumber<double>(text);
  return x ? std::optional<To>(Convert<To>(*x)) : std::nullopt;
}

template <typename From>
std::string ToText(From v) {
  const auto x = static_cast<ComputeType<From>>(v);
  if constexpr (std::is_same_v<From, bool>)
    return x ? "1" : "0";
  else if constexpr (std::is_integral_v<From>)
    return std::to_string(x);
  else {
    if (std::isnan(x)) return "NaN";
    if (std::isinf(x)) return x > 0 ? "INF" : "-INF";
    char buffer[40];
    return std::string(buffer, std::to_chars(buffer, buffer + sizeof(buffer), x).ptr);
  }
}

// Elements [first, first + count) of `t` as its carrier type T: in place, or read into `buffer`.
template <typename T>
const T* Load(const Tensor& t, int64_t first, int64_t count, T* buffer) {
  if (CarrierOf(t.dtype()) == t.dtype()) return t.data<T>() + first;
  if constexpr (std::is_same_v<T, float>) LoadSmallFloats(t, first, count, buffer);
  if constexpr (std::is_same_v<T, int8_t>) LoadSmallIntegers(t, first, count, buffer);
  return buffer;
}

// Calls convert(first, count, where to put `count` elements of the carrier type T) until all of `t` is written.
template <typename T, typename F>
Status StoreChunks(const Tensor& t, const SmallFloatRules& rules, F convert) {
  const int64_t n = t.num_elements();
  const bool in_place = CarrierOf(t.dtype()) == t.dtype();
  T buffer[kChunk];
  for (int64_t first = 0; first < n; first += kChunk) {
    const int64_t count = std::min(kChunk, n - first);
    QUERN_RETURN_IF_ERROR(convert(first, count, in_place ? t.data<T>() + first : buffer));
    if (in_place) continue;
    if constexpr (std::is_same_v<T, float>) StoreSmallFloats(buffer, first, count, rules, t);
    if constexpr (std::is_same_v<T, int8_t>) StoreSmallIntegers(buffer, first, count, t);
  }
  return OkStatus();
}

Status CastNumbers(const Tensor& in, const SmallFloatRules& rules, const Tensor& out) {
  const bool rounds_later = IsSmallFloat(out.dtype());
  return DispatchType(CastList{}, CarrierOf(in.dtype()), [&]<typename From>() {
    return DispatchType(CastList{}, CarrierOf(out.dtype()), [&]<typename To>() {
      return StoreChunks<To>(out, rules, [&](int64_t first, int64_t count, To* y) {
        From buffer[kChunk];
        const From* x = Load(in, first, count, buffer);
        for (int64_t i = 0; i < count; ++i) {
          if constexpr (std::is_same_v<To, float>) {
            y[i] = rounds_later ? ForRounding(x[i]) : Convert<float>(x[i]);
          } else {
            y[i] = Convert<To>(x[i]);
          }
        }
        return OkStatus();
      });
    });
  });
}

Status CastFromText(const StringTensor& in, const SmallFloatRules& rules, const Tensor& out) {
  const bool rounds_later = IsSmallFloat(out.dtype());
  return DispatchType(CastList{}, CarrierOf(out.dtype()), [&]<typename To>() {
    return StoreChunks<To>(out, rules, [&](int64_t first, int64_t count, To* y) -> Status {
      for (int64_t i = 0; i < count; ++i) {
        const std::string& text = in.values[first + i];
        std::optional<To> x = FromText<To>(text);
        if (!x) return InvalidArgument("'" + text + "' is not a number");
        y[i] = *x;
        if constexpr (std::is_same_v<To, float>) {
          if (rounds_later) y[i] = ForRounding(*ParseNumber<double>(text));
        }
      }
      return OkStatus();
    });
  });
}

void CastToText(const Tensor& in, std::string* out) {
  const Status status = DispatchType(CastList{}, CarrierOf(in.dtype()), [&]<typename From>() {
    From buffer[kChunk];
    for (int64_t first = 0; first < in.num_elements(); first += kChunk) {
      const int64_t count = std::min(kChunk, in.num_elements() - first);
      const From* x = Load(in, first, count, buffer);
      for (int64_t i = 0; i < count; ++i) out[first + i] = ToText(x[i]);
    }
    return OkStatus();
  });
  QUERN_CHECK(status.ok(), status.message().c_str());
}

}  // namespace

Status CastToOutput(EvalContext& c, DType to) {
  QUERN_ASSIGN_OR_RETURN(const SmallFloatRules rules, ReadSmallFloatRules(c.node()));
  const Value& value = c.input_value(0);
  const DType from = ElementTypeOf(value);
  if (from == to) {
    c.SetOutput(0, value);
    return OkStatus();
  }
  const TypeSet known = CastTypes(kNewestTypes);
  if (!known.Has(from) || !known.Has(to)) {
    return c.Error(std::string("there is no conversion from ") + DTypeName(from) + " to " + DTypeName(to));
  }
  if (to == DType::kString) {
    QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, to, c.input(0).shape()));
    CastToText(c.input(0), out.data<std::string>());
    return out.Finish();
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor out, c.AllocateOutput(0, to, ShapeOf(value)));
  const Status status =
      from == DType::kString ? CastFromText(value.strings(), rules, out) : CastNumbers(c.input(0), rules, out);
  return status.ok() ? status : status.WithContext(c.node().Describe());
}

Status InferCast(InferContext& c, DType to) {
  QUERN_RETURN_IF_ERROR(ReadSmallFloatRules(c.node()).status());
  c.SetOutputType(0, ValueType::Tensor(to, c.input_shape(0)));
  const std::optional<Dims> content = PropagatedInput(c, 0);
  if (!content) return OkStatus();
  if (to == DType::kI64 || to == DType::kI32) {
    // Extents fit 32 bits in any tensor that exists; other numbers are checked.
    for (const Dim& d : *content) {
      if (to == DType::kI32 && d.is_constant() && d.value() != static_cast<int32_t>(d.value())) return OkStatus();
    }
    c.SetOutputData(0, *content);
  }
  return OkStatus();
}

}  // namespace quern
