// Exact conversions between float32 and the floats of 8 bits and fewer, by the tables of ONNX's Cast: round to nearest
// even, what lies beyond the range is the caller's choice. Kernel-safe.
#pragma once

#include <bit>
#include <cstdint>

namespace quern {

// A sign bit, an exponent and a mantissa; the exponent 0 holds the subnormals.
struct SmallFloat {
  int mantissa_bits;
  int bias;
  uint8_t sign;        // the sign bit
  uint8_t max;         // the largest finite number
  uint8_t infinity;    // 0: none
  uint8_t nan;         // what a NaN becomes, with the sign of it; -0 where there is none
  bool negative_zero;  // false: "uz" types, whose NaN has the bits of -0
  bool has_nan;
};

static constexpr SmallFloat kFloat8E4M3FN = {3, 7, 0x80, 0x7e, 0, 0x7f, true, true};
static constexpr SmallFloat kFloat8E4M3FNUZ = {3, 8, 0x80, 0x7f, 0, 0x80, false, true};
static constexpr SmallFloat kFloat8E5M2 = {2, 15, 0x80, 0x7b, 0x7c, 0x7e, true, true};
static constexpr SmallFloat kFloat8E5M2FNUZ = {2, 16, 0x80, 0x7f, 0, 0x80, false, true};
// Of those below, the low bits of a byte.
static constexpr SmallFloat kFloat6E2M3 = {3, 1, 0x20, 0x1f, 0, 0x20, true, false};
static constexpr SmallFloat kFloat6E3M2 = {2, 3, 0x20, 0x1f, 0, 0x20, true, false};
static constexpr SmallFloat kFloat4E2M1 = {1, 1, 0x08, 0x07, 0, 0x08, true, false};

// What becomes of numbers whose magnitude, once rounded, is above `max`.
enum class Overflow : uint8_t {
  kSaturate,        // the largest finite number, for infinities too
  kSaturateFinite,  // the same, but infinities become the NaN of "uz" types: operator sets 19 to 23
  kSpecial,         // infinity; NaN where there is none; `max` where there is neither
};

static constexpr uint8_t F32ToSmallFloat(float x, const SmallFloat& f, Overflow overflow) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint8_t sign = u >> 31 ? f.sign : uint8_t{0};
  const uint32_t a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return sign | f.nan;
  int64_t code = 256;  // infinity
  if (a < 0x7f800000u) {
    // In units of the last place at x's exponent, or of the smallest subnormal.
    const int exponent = static_cast<int>(a >> 23) - 127, lowest = 1 - f.bias;
    const int above = exponent > lowest ? exponent - lowest : 0;
    const int shift = 23 - f.mantissa_bits + (lowest + above - exponent);
    const uint32_t mantissa = (a & 0x7fffffu) | (a >> 23 ? 0x800000u : 0u);
    uint32_t units = 0;
    if (shift <= 24) {
      const uint32_t rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
      units = mantissa >> shift;
      units += rest > half || (rest == half && (units & 1));
    }
    // The leading bit of the units, where there is one, counts the exponent up by one.
    code = (int64_t{above} << f.mantissa_bits) + units;
  }
  if (code > f.max) {
    const bool saturates = overflow == Overflow::kSaturate || (!f.has_nan && f.infinity == 0) ||
                           (overflow == Overflow::kSaturateFinite && (f.negative_zero || a < 0x7f800000u));
    return sign | (saturates ? f.max : f.infinity != 0 ? f.infinity : f.nan);
  }
  return code == 0 && !f.negative_zero ? uint8_t{0} : static_cast<uint8_t>(sign | code);
}

static constexpr float SmallFloatToF32(uint8_t bits, const SmallFloat& f) {
  const uint32_t magnitude = bits & (f.sign - 1u), sign = bits & f.sign ? 0x80000000u : 0u;
  if (magnitude == 0 && sign && !f.negative_zero) return std::bit_cast<float>(0x7fc00000u);
  if (f.infinity != 0 && magnitude == f.infinity) return std::bit_cast<float>(sign | 0x7f800000u);
  if (magnitude > f.max) return std::bit_cast<float>(sign | 0x7fc00000u);
  const uint32_t exponent = magnitude >> f.mantissa_bits, mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  const uint32_t units = exponent == 0 ? mantissa : mantissa | 1u << f.mantissa_bits;
  const int scale = static_cast<int>(exponent == 0 ? 1 : exponent) - f.bias - f.mantissa_bits;
  const float value = static_cast<float>(units) * std::bit_cast<float>(static_cast<uint32_t>(scale + 127) << 23);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

// float8e8m0: 2^(bits - 127) and a NaN; no zero, no sign.
enum class E8M0Rounding : uint8_t { kUp, kDown, kNearest };  // ties of kNearest go up

// What lies outside [2^-127, 2^127], zero and infinity among it, becomes the nearer end with `saturate`, else NaN. The
// specification leaves negative numbers open: here their sign is dropped.
static constexpr uint8_t F32ToE8M0(float x, E8M0Rounding rounding, bool saturate) {
  const uint32_t a = std::bit_cast<uint32_t>(x) & 0x7fffffffu;
  if (a > 0x7f800000u) return 0xff;
  if (a < 0x00400000u) return saturate ? 0 : 0xff;
  if (a > 0x7f000000u) return saturate ? 0xfe : 0xff;
  // The subnormals that are left begin with the bit for 2^-127.
  const uint32_t exponent = a >> 23, fraction = (exponent == 0 ? a << 1 : a) & 0x7fffffu;
  const bool up = rounding == E8M0Rounding::kUp        ? fraction != 0
                  : rounding == E8M0Rounding::kNearest ? fraction >= 0x400000u
                                                       : false;
  return static_cast<uint8_t>(exponent + up);
}

static constexpr float E8M0ToF32(uint8_t bits) {
  if (bits == 0xff) return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(bits == 0 ? 0x00400000u : static_cast<uint32_t>(bits) << 23);
}

static_assert(F32ToSmallFloat(448.0f, kFloat8E4M3FN, Overflow::kSpecial) == 0x7e &&
              F32ToSmallFloat(465.0f, kFloat8E4M3FN, Overflow::kSpecial) == 0x7f);
static_assert(SmallFloatToF32(0x01, kFloat8E5M2FNUZ) == 0x1p-17f && SmallFloatToF32(0x0f, kFloat4E2M1) == -6.0f);

}  // namespace quern
