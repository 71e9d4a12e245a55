// Rows of 16-bit floats to float32 and back, bit for bit as base/float16.h converts single ones, in forms that
// compilers vectorise: no branches, both sides of each choice computed.
#pragma once

#include <bit>
#include <cstdint>

#include "base/float16.h"

namespace quern::cpu {

inline void ConvertFloats(const Float16* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t h = x[i].bits, magnitude = (h & 0x7fffu) << 13;
    const uint32_t exponent = magnitude & 0x0f800000u;
    const uint32_t normal = magnitude + 0x38000000u;
    // A subnormal as the fraction of 2^-14, which is taken away again.
    const uint32_t tiny = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude + 0x38800000u) - 0x1p-14f);
    const uint32_t quiet = magnitude > 0x0f800000u ? 0x400000u : 0u;
    const uint32_t special = (magnitude + 0x70000000u) | quiet;
    const uint32_t finite = exponent == 0 ? tiny : normal;
    y[i] = std::bit_cast<float>(((h & 0x8000u) << 16) | (exponent == 0x0f800000u ? special : finite));
  }
}

inline void ConvertFloats(const float* x, Float16* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t u = std::bit_cast<uint32_t>(x[i]), a = u & 0x7fffffffu;
    const uint32_t normal = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
    // Adding 1/2 leaves multiples of 2^-24, rounded by the addition; above 2^-14 the sum is not used.
    const float magnitude = std::bit_cast<float>(a);
    const uint32_t tiny = std::bit_cast<uint32_t>(magnitude + 0.5f) - 0x3f000000u;
    const uint32_t nan = 0x7e00u | ((a >> 13) & 0x3ffu);
    const uint32_t finite = a < 0x38800000u ? tiny : normal;
    const uint32_t large = a > 0x7f800000u ? nan : 0x7c00u;
    y[i].bits = static_cast<uint16_t>(((u >> 16) & 0x8000u) | (a >= 0x47800000u ? large : finite));
  }
}

inline void ConvertFloats(const BFloat16* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = std::bit_cast<float>(static_cast<uint32_t>(x[i].bits) << 16);
}

inline void ConvertFloats(const float* x, BFloat16* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t u = std::bit_cast<uint32_t>(x[i]);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, nan = (u >> 16) | 0x40u;
    y[i].bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

}  // namespace quern::cpu
