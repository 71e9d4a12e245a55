// Doubles as integers without undefined behaviour.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

namespace quern {

// v as T: integers are truncated towards zero and saturated, NaN gives 0; floats are rounded.
template <typename T>
T SaturateTo(double v) {
  if constexpr (std::is_integral_v<T>) {
    if (std::isnan(v)) return T{0};
    const double limit = std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (v >= limit) return std::numeric_limits<T>::max();
    if (v <= (std::is_signed_v<T> ? -limit : 0.0)) return std::numeric_limits<T>::lowest();
  }
  return static_cast<T>(v);
}

}  // namespace quern
