// Numbers behind bytes that are quantized as a whole, as tables: what operators on such bytes share.
#pragma once

#include <array>
#include <cstdint>

#include "provider/cpu/common/loops.h"
#include "provider/cpu/cpu_op.h"
#include "ukernel/affine/bytes.h"

namespace quern::cpu {

// (q - zero_point) * scale, of an 8-bit type. Tables and bounds go by the byte's bits.
struct ByteQuantization : ukernel::ByteScale {
  // Scale and zero point where they lie at run time; a null zero point is 0.
  static ByteQuantization Read(const void* scale, const void* zero_point, DType type) {
    ByteQuantization q;
    q.scale = *static_cast<const float*>(scale);
    q.is_signed = type == DType::kI8;
    if (zero_point) q.zero_point = q.Number(*static_cast<const uint8_t*>(zero_point));
    return q;
  }
  int32_t Number(uint8_t bits) const { return is_signed ? static_cast<int8_t>(bits) : bits; }
  double Real(uint8_t bits) const { return scale * static_cast<double>(Number(bits) - zero_point); }
  // The byte next to a number, rounded once, half to even; the lowest for NaN.
  uint8_t Store(double value) const {
    return is_signed ? ukernel::ByteOf<true>(value, scale, zero_point)
                     : ukernel::ByteOf<false>(value, scale, zero_point);
  }
};

using ByteTable = std::array<uint8_t, 256>;

// The byte of f(number) for each byte.
template <typename F>
ByteTable MapBytes(const ByteQuantization& from, const ByteQuantization& to, F f) {
  ByteTable table;
  for (int i = 0; i < 256; ++i) table[i] = to.Store(f(from.Real(static_cast<uint8_t>(i))));
  return table;
}

}  // namespace quern::cpu
