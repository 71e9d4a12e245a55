// Rows between float32 and the floats of 6 and 4 bits, which lie in a row of bits (base/packed_bits.h): four of 6 bits
// in three bytes, two of 4 bits in one. Kernel-safe.
#pragma once

#include "base/packed_bits.h"
#include "ukernel/elementwise/small_floats.h"

namespace quern::ukernel {
namespace {

constexpr int64_t kPackedChunk = 64;  // elements that have bytes of their own for a while, a multiple of 4

// Of `count` elements, a byte for each from the bits. Three bytes are 24 bits with four elements.
template <int kBits>
void SpreadBits(const uint8_t* __restrict packed, uint8_t* __restrict bytes, int64_t count) {
  constexpr int64_t kTogether = kBits == 4 ? 2 : 4, kBytes = kTogether * kBits / 8;
  constexpr uint32_t kMask = (1u << kBits) - 1;
  const int64_t whole = count / kTogether;
  for (int64_t g = 0; g < whole; ++g) {
    uint32_t group = 0;
    for (int64_t b = 0; b < kBytes; ++b) group |= static_cast<uint32_t>(packed[g * kBytes + b]) << (8 * b);
    for (int64_t e = 0; e < kTogether; ++e) {
      bytes[g * kTogether + e] = static_cast<uint8_t>(group >> (kBits * e) & kMask);
    }
  }
  for (int64_t i = whole * kTogether; i < count; ++i) bytes[i] = LoadPacked(packed, i, kBits);
}

template <int kBits>
void GatherBits(const uint8_t* __restrict bytes, uint8_t* __restrict packed, int64_t count) {
  constexpr int64_t kTogether = kBits == 4 ? 2 : 4, kBytes = kTogether * kBits / 8;
  const int64_t whole = count / kTogether;
  for (int64_t g = 0; g < whole; ++g) {
    uint32_t group = 0;
    for (int64_t e = 0; e < kTogether; ++e) {
      group |= static_cast<uint32_t>(bytes[g * kTogether + e]) << (kBits * e);
    }
    for (int64_t b = 0; b < kBytes; ++b) packed[g * kBytes + b] = static_cast<uint8_t>(group >> (8 * b));
  }
  for (int64_t i = whole * kTogether; i < count; ++i) AppendPacked(packed, i, kBits, bytes[i]);
}

template <SmallFloat kF>
constexpr int kBitsOf = std::bit_width(unsigned{kF.sign});

template <SmallFloat kF>
void FromPackedFloats(int64_t n, const void* x, void* y, const RowParameters&) {
  const auto* packed = static_cast<const uint8_t*>(x);
  auto* to = static_cast<float*>(y);
  for (int64_t i = 0; i < n; i += kPackedChunk) {
    const int64_t count = n - i < kPackedChunk ? n - i : kPackedChunk;
    uint8_t bytes[kPackedChunk];
    SpreadBits<kBitsOf<kF>>(packed + i * kBitsOf<kF> / 8, bytes, count);
    QUERN_INDEPENDENT
    for (int64_t j = 0; j < count; ++j) to[i + j] = FromSmallFloat<kF>{}(bytes[j]);
  }
}

// Bits of the last byte that are no element's become 0.
template <SmallFloat kF>
void ToPackedFloats(int64_t n, const void* x, void* y, const RowParameters& parameters) {
  const auto* from = static_cast<const float*>(x);
  auto* packed = static_cast<uint8_t*>(y);
  const Overflow overflow = OverflowOf(parameters);
  for (int64_t i = 0; i < n; i += kPackedChunk) {
    const int64_t count = n - i < kPackedChunk ? n - i : kPackedChunk;
    uint8_t bytes[kPackedChunk];
    QUERN_INDEPENDENT
    for (int64_t j = 0; j < count; ++j) bytes[j] = ToSmallFloatBits<kF>(from[i + j], overflow);
    GatherBits<kBitsOf<kF>>(bytes, packed + i * kBitsOf<kF> / 8, count);
  }
}

}  // namespace
}  // namespace quern::ukernel
