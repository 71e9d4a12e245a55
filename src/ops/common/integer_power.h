// Powers of integers, exact modulo 2^n.
#pragma once

#include <cstdint>

#include "ops/common/elementwise.h"

namespace quern {

// x to the power of y; `by_zero` is set for a negative power of zero, other negative powers are cut off towards zero.
template <typename T>
T IntegerPower(T x, int64_t y, bool& by_zero) {
  if (y < 0) {
    if (x == T{0}) by_zero = true;
    if (x == T{1}) return T{1};
    if (x == T{-1}) return y % 2 == 0 ? T{1} : T{-1};
    return T{0};
  }
  T result{1};
  for (T factor = x; y > 0; y >>= 1, factor = WrappingMul(factor, factor)) {
    if (y & 1) result = WrappingMul(result, factor);
  }
  return result;
}

}  // namespace quern
