// 16-bit floats in lanes of 32 bits to float32 without branches, the values of base/float16.h. Kernel-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ukernel/format.h"

namespace quern::ukernel {
namespace {

typedef uint32_t HalfBits __attribute__((vector_size(16)));
typedef int32_t HalfInts __attribute__((vector_size(16)));
typedef float WideHalf __attribute__((vector_size(16)));

// The low 16 bits of each lane are the number, the others zero.
template <Format F>
inline WideHalf WidenHalf(HalfBits h) {
  if constexpr (F == Format::kBf16) {
    return (WideHalf)(h << 16);
  } else {
    const HalfBits magnitude = h & 0x7fffu, sign = (h & 0x8000u) << 16;
    const HalfBits normal = (magnitude << 13) + (112u << 23);
    // Infinities and NaN, which become quiet; small numbers are integers of 2^-24.
    const HalfBits quiet = (HalfBits)((HalfInts)magnitude > 0x7c00) & 0x400000u;
    const HalfBits special = (magnitude << 13) | (255u << 23) | quiet;
    const HalfBits small = (HalfBits)(__builtin_convertvector((HalfInts)magnitude, WideHalf) * 0x1p-24f);
    const HalfBits is_special = (HalfBits)((HalfInts)magnitude >= 0x7c00);
    const HalfBits is_small = (HalfBits)((HalfInts)magnitude < 0x400);
    return (WideHalf)(sign | (special & is_special) | (small & is_small) | (normal & ~is_special & ~is_small));
  }
}

}  // namespace
}  // namespace quern::ukernel
