// Elements of 6, 4 and 2 bits in a row of bits, the first in the lowest bits of the first byte. Kernel-safe.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace quern {

// Bits of an element of a type that shares bytes; 0 for the others, block formats among them.
static constexpr int PackedBits(DType t) {
  const int elements = GetDTypeInfo(t).block_elements;
  return elements > 1 && !IsBlockType(t) ? 8 * GetDTypeInfo(t).block_bytes / elements : 0;
}

static constexpr uint8_t LoadPacked(const uint8_t* bytes, int64_t i, int bits) {
  const int64_t first = i * bits;
  const int shift = static_cast<int>(first % 8);
  int value = bytes[first / 8] >> shift;
  if (shift + bits > 8) value |= bytes[first / 8 + 1] << (8 - shift);
  return static_cast<uint8_t>(value & ((1 << bits) - 1));
}

// Writes the low bits of `value` after element i - 1; the rest of their last byte becomes 0.
static constexpr void AppendPacked(uint8_t* bytes, int64_t i, int bits, uint8_t value) {
  const int64_t first = i * bits;
  const int shift = static_cast<int>(first % 8);
  uint8_t& byte = bytes[first / 8];
  const int before = shift == 0 ? 0 : byte & ((1 << shift) - 1);
  const int placed = (value & ((1 << bits) - 1)) << shift;
  byte = static_cast<uint8_t>(before | placed);
  if (shift + bits > 8) bytes[first / 8 + 1] = static_cast<uint8_t>(placed >> 8);
}

// Writes the low bits of `value` as element i; its neighbours stay.
static constexpr void StorePacked(uint8_t* bytes, int64_t i, int bits, uint8_t value) {
  const int64_t first = i * bits;
  const int shift = static_cast<int>(first % 8), mask = (1 << bits) - 1, placed = (value & mask) << shift;
  uint8_t* at = bytes + first / 8;
  at[0] = static_cast<uint8_t>((at[0] & ~(mask << shift)) | placed);
  if (shift + bits > 8) at[1] = static_cast<uint8_t>((at[1] & ~(mask << shift >> 8)) | placed >> 8);
}

// The number that the low bits of `value` are in two's complement.
static constexpr int8_t SignExtend(uint8_t value, int bits) {
  const int sign = 1 << (bits - 1), low = value & ((1 << bits) - 1);
  return static_cast<int8_t>((low ^ sign) - sign);
}

}  // namespace quern
