#include "ops/common/cast.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

using CastList = Types<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                       uint64_t, bool>;

// A float that rounds to a 16-bit float as the double would: the last bit is set when something was cut off.
float RoundToOdd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || std::isnan(x) || std::isinf(nearest)) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(x)) --bits;
  return std::bit_cast<float>(bits | 1);
}

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

template <typename To, typename From>
To Convert(From v) {
  const auto x = static_cast<ComputeType<From>>(v);
  using X = std::remove_cv_t<decltype(x)>;
  if constexpr (std::is_same_v<To, bool>) {
    return x != X{};
  } else if constexpr (std::is_same_v<To, Float16> || std::is_same_v<To, BFloat16>) {
    if constexpr (std::is_same_v<X, float> || sizeof(X) <= 2) {
      return To(static_cast<float>(x));
    } else {
      return To(RoundToOdd(static_cast<double>(x)));
    }
  } else if constexpr (std::is_floating_point_v<X> && std::is_integral_v<To>) {
    return FloatToInteger<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// The whole text as a number: decimal or scientific, "NaN", "INF" with a sign, in any case.
std::optional<double> ParseNumber(const std::string& text) {
  const char* first = text.data();
  const char* last = first + text.size();
  if (first != last && *first == '+') ++first;
  double x = 0;
  const auto [end, error] = std::from_chars(first, last, x);
  if (error == std::errc::result_out_of_range) {
    const bool tiny = text.find("e-") != std::string::npos || text.find("E-") != std::string::npos;
    const double size = tiny ? 0.0 : std::numeric_limits<double>::infinity();
    return first != last && *first == '-' ? -size : size;
  }
  if (error != std::errc() || end != last) return std::nullopt;
  return x;
}

template <typename To>
std::optional<To> FromText(const std::string& text) {
  if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool>) {
    const char* first = text.data() + (!text.empty() && text[0] == '+');
    To exact{};
    const auto [end, error] = std::from_chars(first, text.data() + text.size(), exact);
    if (error == std::errc() && end == text.data() + text.size()) return exact;
  }
  const std::optional<double> x = ParseNumber(text);
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

Status CastNumbers(const Tensor& in, const Tensor& out) {
  return DispatchType(CastList{}, in.dtype(), [&]<typename From>() {
    return DispatchType(CastList{}, out.dtype(), [&]<typename To>() {
      const From* x = in.data<From>();
      To* y = out.data<To>();
      const int64_t n = in.num_elements();
      for (int64_t i = 0; i < n; ++i) y[i] = Convert<To>(x[i]);
      return OkStatus();
    });
  });
}

}  // namespace

Status CastToOutput(EvalContext& c, DType to) {
  const Value& value = c.input_value(0);
  const DType from = ElementTypeOf(value);
  if (from == to) {
    c.SetOutput(0, value);
    return OkStatus();
  }
  if (from == DType::kString) {
    const StringTensor& strings = value.strings();
    QUERN_ASSIGN_OR_RETURN(const Tensor out, c.AllocateOutput(0, to, strings.shape));
    const Status status = DispatchType(CastList{}, to, [&]<typename To>() -> Status {
      for (size_t i = 0; i < strings.values.size(); ++i) {
        const std::optional<To> x = FromText<To>(strings.values[i]);
        if (!x) return InvalidArgument("'" + strings.values[i] + "' is not a number");
        out.data<To>()[i] = *x;
      }
      return OkStatus();
    });
    return status.ok() ? status : status.WithContext(c.node().Describe());
  }
  const Tensor& in = c.input(0);
  if (to == DType::kString) {
    QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, to, in.shape()));
    const Status status = DispatchType(CastList{}, from, [&]<typename From>() {
      const From* x = in.data<From>();
      for (int64_t i = 0; i < in.num_elements(); ++i) out.data<std::string>()[i] = ToText(x[i]);
      return OkStatus();
    });
    return status.ok() ? out.Finish() : status.WithContext(c.node().Describe());
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor out, c.AllocateOutput(0, to, in.shape()));
  const Status status = CastNumbers(in, out);
  return status.ok() ? status : status.WithContext(c.node().Describe());
}

Status InferCast(InferContext& c, DType to) {
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
