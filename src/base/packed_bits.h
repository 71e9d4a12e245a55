// Elements of 4 and 2 bits: the first of a byte lies in its lowest bits.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace quern {

// Bits of an element of a type that shares bytes; 0 for the others, block formats among them.
constexpr int PackedBits(DType t) {
  const int elements = GetDTypeInfo(t).block_elements;
  return elements > 1 && !IsBlockType(t) ? 8 / elements : 0;
}

constexpr uint8_t LoadPacked(const uint8_t* bytes, int64_t i, int bits) {
  const int64_t first = i * bits;
  return static_cast<uint8_t>((bytes[first / 8] >> (first % 8)) & ((1 << bits) - 1));
}

// Writes the low bits of `value` after element i - 1; the rest of the byte becomes 0.
constexpr void AppendPacked(uint8_t* bytes, int64_t i, int bits, uint8_t value) {
  const int64_t first = i * bits;
  const int shift = static_cast<int>(first % 8);
  uint8_t& byte = bytes[first / 8];
  const int before = shift == 0 ? 0 : byte & ((1 << shift) - 1);
  byte = static_cast<uint8_t>(before | ((value & ((1 << bits) - 1)) << shift));
}

// The number that the low bits of `value` are in two's complement.
constexpr int8_t SignExtend(uint8_t value, int bits) {
  const int sign = 1 << (bits - 1), low = value & ((1 << bits) - 1);
  return static_cast<int8_t>((low ^ sign) - sign);
}

}  // namespace quern
