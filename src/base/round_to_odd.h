// A float32 that stands for a wider number in a rounding that follows: cut off after 24 bits, with the last bit set
// when something was lost. Rounding it to 22 bits or fewer gives what rounding the wide number would.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

namespace quern {

// Zero, infinities, NaN and numbers that are a float32 stay; finite ones beyond its range become the largest finite.
constexpr float RoundToOdd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || x != x) return nearest;
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const double magnitude = x < 0 ? -x : x, rounded = nearest < 0 ? -static_cast<double>(nearest) : nearest;
  return std::bit_cast<float>((rounded > magnitude ? bits - 1 : bits) | 1u);
}

template <std::integral T>
constexpr float RoundToOdd(T x) {
  const uint64_t magnitude = x < 0 ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  const int shift = static_cast<int>(std::bit_width(magnitude)) - 24;
  float rounded = static_cast<float>(magnitude);
  if (shift > 0) {
    const bool lost = (magnitude & ((uint64_t{1} << shift) - 1)) != 0;
    rounded = static_cast<float>((magnitude >> shift) | uint64_t{lost}) * static_cast<float>(uint64_t{1} << shift);
  }
  return x < 0 ? -rounded : rounded;
}

static_assert(RoundToOdd(1.0 / 3) == 0x1.555556p-2f && RoundToOdd(-1.0 - 0x1p-40) == -0x1.000002p0f);
static_assert(RoundToOdd(int64_t{1} << 40 | 1) == 0x1.000002p40f && RoundToOdd(INT64_MIN) == -0x1p63f);

}  // namespace quern
