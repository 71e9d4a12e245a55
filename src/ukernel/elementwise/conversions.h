// Conversions of numbers without branches, in forms that vectorize on every ISA. The rules of Cast: fractions are cut
// off; what does not fit a 32- or 64-bit integer gives the most negative number (32-bit unsigned: 0 beyond 64 bits),
// smaller integers keep the low bits; to float16 and bfloat16 as base/float16.h rounds. Kernel-safe.
#pragma once

#include <type_traits>

#include "base/float16.h"
#include "ukernel/elementwise/math_f64.h"

namespace quern::ukernel {

// 64-bit integers to floats and back: AVX-512 and NEON have vector instructions, and those of single numbers are better
// than two lanes of what follows. AVX2 lacks the former.
#if defined(__AVX2__) && !defined(__AVX512DQ__)
#define QUERN_CONVERTS_LONG 0
#else
#define QUERN_CONVERTS_LONG 1
#endif

// x to float64, rounded once. The halves of 64-bit integers are each added to the bits of a large number.
template <class T>
QUERN_MATH double ToDouble(T x) {
  if constexpr (!QUERN_CONVERTS_LONG && std::is_integral_v<T> && sizeof(T) == 8) {
    constexpr bool kSigned = std::is_signed_v<T>;
    const uint64_t bits = static_cast<uint64_t>(x);
    const uint64_t low = (bits & 0xffffffff) | 0x4330000000000000;                           // 2^52 + low half
    const uint64_t high = ((bits >> 32) ^ (kSigned ? 0x80000000 : 0)) | 0x4530000000000000;  // 2^84 + high half
    return (DoubleOf(high) - (0x1p84 + 0x1p52 + (kSigned ? 0x1p63 : 0.0))) + DoubleOf(low);
  } else {
    return static_cast<double>(x);
  }
}

// A whole number as an integer modulo 2^64, for |x| < 2^64.
QUERN_MATH uint64_t LongOf(double x) {
  const double high = Floor(x * 0x1p-32), low = x - high * 0x1p32;
  return ((BitsOf(high + kRoundToLong) - BitsOf(kRoundToLong)) << 32) + (BitsOf(low + 0x1p52) - BitsOf(0x1p52));
}

// The low 32 bits of x cut off, for |x| < 2^63; else 0.
QUERN_MATH uint32_t LowWord(double x) {
  const double whole = Trunc(x), low = whole - Floor(whole * 0x1p-32) * 0x1p32;
  const bool fits = (x >= -0x1p63) & (x < 0x1p63);
  return static_cast<uint32_t>(BitsOf((fits ? low : 0.0) + 0x1p52));
}

template <class To>
QUERN_MATH To CutOff(double x) {
  if constexpr (sizeof(To) == 8) {
    const bool fits = (x >= -0x1p63) & (x < (std::is_signed_v<To> ? 0x1p63 : 0x1p64));
    if constexpr (QUERN_CONVERTS_LONG && std::is_signed_v<To>) {
      return static_cast<To>(fits ? x : -0x1p63);
    } else {
      return static_cast<To>(fits ? LongOf(Trunc(x)) : uint64_t{1} << 63);
    }
  } else if constexpr (std::is_same_v<To, int32_t>) {
    return static_cast<int32_t>(((x > -2147483649.0) & (x < 2147483648.0)) ? x : -2147483648.0);
  } else {
    return static_cast<To>(LowWord(x));
  }
}
template <class To>
QUERN_MATH To CutOff(float x) {
  if constexpr (sizeof(To) >= 4) {
    return CutOff<To>(static_cast<double>(x));
  } else {
    // Its low 32 bits; finite numbers from 2^55 on end in 32 zeros, so that 31 bits on either side are enough.
    const bool fits = (x > -0x1p31f) & (x < 0x1p31f);
    if constexpr (sizeof(To) == 1) {  // floats from 2^31 on are multiples of 2^8
      return static_cast<To>(static_cast<int32_t>(fits ? x : 0.0f));
    } else {  // those from 2^40 on of 2^16
      const float whole = ((x > -0x1p40f) & (x < 0x1p40f)) ? x : 0.0f;
      const float high = static_cast<float>(static_cast<int32_t>(whole * 0x1p-16f));
      return static_cast<To>(static_cast<int32_t>(whole - high * 0x1p16f));
    }
  }
}

// v as an element of T: integers are cut off and saturated, NaN gives 0; floats are rounded.
template <class T>
QUERN_MATH T FromDouble(double v) {
  if constexpr (!std::is_integral_v<T>) {
    return static_cast<T>(v);
  } else {
    constexpr bool kSigned = std::is_signed_v<T>;
    constexpr T kMost = static_cast<T>(kSigned ? (uint64_t{1} << (8 * sizeof(T) - 1)) - 1 : ~uint64_t{0});
    constexpr T kLeast = kSigned ? static_cast<T>(-kMost - 1) : T{0};
    constexpr double kLimit = 2.0 * static_cast<double>(uint64_t{1} << (8 * sizeof(T) - 1 - (kSigned ? 1 : 0)));
    const double bounded = v > (kSigned ? -kLimit : 0.0) ? v : static_cast<double>(kLeast);
    const double known = v != v ? 0.0 : bounded;
    if constexpr (sizeof(T) == 8) {
      return known >= kLimit ? kMost : CutOff<T>(known);
    } else if constexpr (sizeof(T) == 4 && !kSigned) {
      return static_cast<T>(LowWord(known >= kLimit ? static_cast<double>(kMost) : known));
    } else {
      return static_cast<T>(static_cast<int32_t>(known >= kLimit ? static_cast<double>(kMost) : known));
    }
  }
}

// A 64-bit integer as float64, exact or cut off with a bit set far below a float's last one: rounding it to fewer bits
// gives what rounding the integer would.
template <class T>
QUERN_MATH double StickyDouble(T x) {
  const uint64_t bits = static_cast<uint64_t>(x), low = bits & 0x7ff;
  const uint64_t sticky = (bits & ~uint64_t{0x7ff}) | ((low + 0x7ff) & 0x800);
  const double nearest = ToDouble(x), cut = ToDouble(static_cast<T>(sticky));
  return Abs(nearest) >= 0x1p53 ? cut : nearest;
}

// Where a conversion to float32 is not one instruction. Clang 19 makes two roundings of it on NEON.
#if defined(__aarch64__)
template <class T>
static constexpr bool kLongNeedsSticky = std::is_integral_v<T> && sizeof(T) == 8;
#else
template <class T>
static constexpr bool kLongNeedsSticky = std::is_same_v<T, uint64_t>;
#endif

// float32 cut off after 24 bits, with the last bit set when something was lost (as base/round_to_odd.h): what lies
// beyond its range becomes the largest finite number.
QUERN_MATH float RoundOdd(double x) {
  const float nearest = static_cast<float>(x);
  const double back = static_cast<double>(nearest);
  const uint32_t bits = BitsOf(nearest), down = Abs(back) > Abs(x) ? 1u : 0u;
  return ((back == x) | (x != x)) ? nearest : FloatOf((bits - down) | 1u);
}

QUERN_MATH float HalfToFloat(uint16_t bits) {
  const uint32_t h = bits, magnitude = (h & 0x7fffu) << 13;
  const uint32_t exponent = magnitude & 0x0f800000u;
  const uint32_t normal = magnitude + 0x38000000u;
  // A subnormal as the fraction of 2^-14, which is taken away again.
  const uint32_t tiny = BitsOf(FloatOf(magnitude + 0x38800000u) - 0x1p-14f);
  const uint32_t quiet = magnitude > 0x0f800000u ? 0x400000u : 0u;
  const uint32_t special = (magnitude + 0x70000000u) | quiet;
  const uint32_t finite = exponent == 0 ? tiny : normal;
  return FloatOf(((h & 0x8000u) << 16) | (exponent == 0x0f800000u ? special : finite));
}

QUERN_MATH uint16_t FloatToHalf(float x) {
  const uint32_t u = BitsOf(x), a = u & 0x7fffffffu;
  const uint32_t normal = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
  // Adding 1/2 leaves multiples of 2^-24, rounded by the addition; above 2^-14 the sum is not used.
  const uint32_t tiny = BitsOf(FloatOf(a) + 0.5f) - 0x3f000000u;
  const uint32_t nan = 0x7e00u | ((a >> 13) & 0x3ffu);
  const uint32_t finite = a < 0x38800000u ? tiny : normal;
  const uint32_t large = a > 0x7f800000u ? nan : 0x7c00u;
  return static_cast<uint16_t>(((u >> 16) & 0x8000u) | (a >= 0x47800000u ? large : finite));
}

QUERN_MATH uint16_t FloatToBrain(float x) {
  const uint32_t u = BitsOf(x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, nan = (u >> 16) | 0x40u;
  return static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

// Cast.
template <class To>
struct Converted {
  template <class From>
  To operator()(From x) const {
    if constexpr (std::is_same_v<From, Float16>) {
      return HalfToFloat(x.bits);
    } else if constexpr (std::is_same_v<From, BFloat16>) {
      return FloatOf(static_cast<uint32_t>(x.bits) << 16);
    } else if constexpr (std::is_same_v<To, Float16>) {
      return Float16::FromBits(FloatToHalf(x));
    } else if constexpr (std::is_same_v<To, BFloat16>) {
      return BFloat16::FromBits(FloatToBrain(x));
    } else if constexpr (std::is_same_v<To, bool>) {
      return x != From{};
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
      return CutOff<To>(x);
    } else if constexpr (std::is_integral_v<From> && sizeof(From) == 8 && std::is_same_v<To, double>) {
      return ToDouble(x);
    } else if constexpr (kLongNeedsSticky<From> && std::is_same_v<To, float>) {
      return static_cast<float>(StickyDouble(x));
    } else {
      return static_cast<To>(x);
    }
  }
};

// float32 that rounds to 16 bits as x does.
struct RoundedOdd {
  template <class From>
  float operator()(From x) const {
    if constexpr (std::is_integral_v<From> && sizeof(From) == 8) {
      return RoundOdd(StickyDouble(x));
    } else {
      return RoundOdd(static_cast<double>(x));
    }
  }
};

}  // namespace quern::ukernel
