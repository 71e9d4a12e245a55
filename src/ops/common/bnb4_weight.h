// Weights in the 4-bit formats of bitsandbytes: codes into a table of 16 levels, in blocks of the flattened matrix that
// have one scale each.
#pragma once

#include "ops/op.h"

namespace quern {

// [n, k], row-major; blocks run over the ends of rows. Two codes a byte, the first in the higher bits.
struct Bnb4Weight {
  int64_t n = 0, k = 0, block = 0;
  const float* levels = nullptr;  // 16, from -1 to 1

  int64_t elements() const { return n * k; }
  int64_t bytes() const { return (elements() + 1) / 2; }
  int64_t blocks() const { return (elements() + block - 1) / block; }
};

// From the attributes of a MatMulBnb4; an error when they are out of range.
Result<Bnb4Weight> ReadBnb4Weight(const Node& node);
// levels[code] * scale of the `elements()` elements at `to`; `absmax` has `blocks()` scales.
void DequantizeBnb4(const Bnb4Weight& weight, const uint8_t* codes, const float* absmax, float* to);

}  // namespace quern
