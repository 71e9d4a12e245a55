// Weights in block formats (q4_0, q4_1, q8_0), dequantized a row at a time.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "base/float16.h"

namespace quern {

// Writes `count` weights (a multiple of 32) of one row of blocks to `out`.
inline void DequantizeBlockRow(DType format, const uint8_t* blocks, int64_t count, float* out) {
  const auto half = [](const uint8_t* p) {
    uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return F16BitsToF32(bits);
  };
  for (int64_t first = 0; first < count; first += 32, out += 32, blocks += GetDTypeInfo(format).block_bytes) {
    const float d = half(blocks);
    if (format == DType::kQ8_0) {
      for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(blocks[2 + i]));
      continue;
    }
    const bool has_minimum = format == DType::kQ4_1;
    const float add = has_minimum ? half(blocks + 2) : 0.0f;
    const uint8_t* nibbles = blocks + (has_minimum ? 4 : 2);
    const int offset = has_minimum ? 0 : 8;
    for (int i = 0; i < 16; ++i) {
      out[i] = d * static_cast<float>((nibbles[i] & 15) - offset) + add;
      out[i + 16] = d * static_cast<float>((nibbles[i] >> 4) - offset) + add;
    }
  }
}

}  // namespace quern
