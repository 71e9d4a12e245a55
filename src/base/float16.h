// Exact conversions between float32 and the 16-bit floats: round to nearest even, NaN stays NaN. Kernel-safe.
#pragma once

#include <bit>
#include <cstdint>

namespace quern {

// IEEE binary16 bits of `x`; overflow gives infinity, tiny values go through the subnormals, a NaN stays a quiet NaN
// with the top bits of its payload.
static constexpr uint16_t F32ToF16Bits(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
  if (a >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65536 and above, infinity
  if (a >= 0x38800000u) {  // normal result; 65520 and above carry into infinity
    const uint32_t r = a - 0x38000000u;
    return static_cast<uint16_t>(sign | ((r + 0xfffu + ((r >> 13) & 1u)) >> 13));
  }
  if (a < 0x33000000u) return sign;  // below half of the smallest subnormal
  const uint32_t mantissa = (a & 0x7fffffu) | 0x800000u;
  const uint32_t shift = 126u - (a >> 23);  // 14 to 24
  const uint32_t half = mantissa >> shift;
  const uint32_t rest = mantissa & ((1u << shift) - 1u);
  const uint32_t middle = 1u << (shift - 1u);
  return static_cast<uint16_t>(sign | (half + (rest > middle || (rest == middle && (half & 1u)))));
}

// The value of binary16 bits, exact; a signalling NaN becomes quiet.
static constexpr float F16BitsToF32(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fu;
  const uint32_t mantissa = h & 0x3ffu;
  if (exponent == 31) {
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u));
  }
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  const uint32_t lead = static_cast<uint32_t>(std::countl_zero(mantissa)) - 21u;  // 1 to 10
  return std::bit_cast<float>(sign | ((113u - lead) << 23) | ((mantissa << (lead + 13u)) & 0x7fffffu));
}

// bfloat16 bits of `x`; a NaN stays a quiet NaN.
static constexpr uint16_t F32ToBf16Bits(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

static constexpr float Bf16BitsToF32(uint16_t h) { return std::bit_cast<float>(static_cast<uint32_t>(h) << 16); }

// Storage types with explicit conversions; layout-compatible with the 16 bits that files and tensors hold.
struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit constexpr Float16(float x) : bits(F32ToF16Bits(x)) {}
  explicit constexpr operator float() const { return F16BitsToF32(bits); }
  static constexpr Float16 FromBits(uint16_t b) {
    Float16 h;
    h.bits = b;
    return h;
  }
};

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit constexpr BFloat16(float x) : bits(F32ToBf16Bits(x)) {}
  explicit constexpr operator float() const { return Bf16BitsToF32(bits); }
  static constexpr BFloat16 FromBits(uint16_t b) {
    BFloat16 h;
    h.bits = b;
    return h;
  }
};

static_assert(sizeof(Float16) == 2 && sizeof(BFloat16) == 2);
static_assert(F32ToF16Bits(1.0f) == 0x3c00 && F32ToF16Bits(65519.0f) == 0x7bff && F32ToF16Bits(65520.0f) == 0x7c00);
static_assert(F16BitsToF32(0x0001) == 5.9604644775390625e-8f && F16BitsToF32(0x03ff) == 6.097555160522461e-5f);
static_assert(F32ToBf16Bits(1.00390625f) == 0x3f80 && F32ToBf16Bits(1.01171875f) == 0x3f82);

}  // namespace quern
