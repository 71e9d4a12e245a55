// Bytes and the numbers that they stand for, one at a time. Kernel-safe.
#pragma once

#include "ukernel/affine.h"
#include "ukernel/vector_math.h"

namespace quern::ukernel {

template <bool kSigned>
QUERN_MATH int32_t StoredNumber(uint8_t bits) {
  return kSigned ? static_cast<int8_t>(bits) : bits;
}

// zero + a number that is near enough to an integer, half to even: 1.5 * 2^52 leaves integers when it is added.
template <bool kSigned>
QUERN_MATH uint8_t ByteOf(double number, double scale, double zero) {
  constexpr double kLow = kSigned ? -128 : 0, kHigh = kSigned ? 127 : 255, kFar = 1e9, kRound = 0x1.8p52;
  const double quotient = number / scale;
  const double bounded = quotient < -kFar ? -kFar : quotient > kFar ? kFar : quotient;
  const double q = (bounded + kRound - kRound) + zero;
  return static_cast<uint8_t>(static_cast<int32_t>(q > kLow ? (q < kHigh ? q : kHigh) : kLow));
}

}  // namespace quern::ukernel
