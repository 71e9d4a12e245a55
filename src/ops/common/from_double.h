// Results that operators compute in double, as elements of the output's type.
#pragma once

#include "base/round_to_odd.h"
#include "ops/common/dispatch.h"
#include "ops/common/saturate.h"

namespace quern {

// v as an element of any numeric type: truncated and saturated to integers, rounded to floats.
template <typename T>
T FromDouble(double v) {
  if constexpr (std::is_same_v<ComputeType<T>, T>) {
    return SaturateTo<T>(v);
  } else {
    return T(RoundToOdd(v));
  }
}

}  // namespace quern
