// Numbers behind bytes that are quantized as a whole, as tables: what operators on such bytes share.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "provider/cpu/cpu_op.h"

namespace quern::cpu {

// (q - zero_point) * scale, of an 8-bit type. Tables and bounds go by the byte's bits.
struct ByteQuantization {
  double scale = 1;
  int32_t zero_point = 0;
  bool is_signed = false;

  // Scale and zero point where they lie at run time; a null zero point is 0.
  static ByteQuantization Read(const void* scale, const void* zero_point, DType type) {
    ByteQuantization q{.scale = *static_cast<const float*>(scale), .zero_point = 0, .is_signed = type == DType::kI8};
    if (zero_point) q.zero_point = q.Number(*static_cast<const uint8_t*>(zero_point));
    return q;
  }
  int32_t Number(uint8_t bits) const { return is_signed ? static_cast<int8_t>(bits) : bits; }
  double Real(uint8_t bits) const { return scale * static_cast<double>(Number(bits) - zero_point); }
  // The byte next to a number, rounded once, half to even; the lowest for NaN.
  uint8_t Store(double value) const {
    const double low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
    const double bounded = std::clamp(value / scale, -1e9, 1e9);
    // 1.5 * 2^52: adding it rounds to an integer.
    const double q = (bounded + 6755399441055744.0 - 6755399441055744.0) + zero_point;
    return static_cast<uint8_t>(static_cast<int32_t>(q > low ? std::min(q, high) : low));
  }
};

using RealTable = std::array<double, 256>;
using ByteTable = std::array<uint8_t, 256>;

inline RealTable RealsOf(const ByteQuantization& q) {
  RealTable table;
  for (int i = 0; i < 256; ++i) table[i] = q.Real(static_cast<uint8_t>(i));
  return table;
}
// The byte of f(number) for each byte.
template <typename F>
ByteTable MapBytes(const ByteQuantization& from, const ByteQuantization& to, F f) {
  ByteTable table;
  for (int i = 0; i < 256; ++i) table[i] = to.Store(f(from.Real(static_cast<uint8_t>(i))));
  return table;
}

}  // namespace quern::cpu
