// Floats as bytes by their own range, as DynamicQuantizeLinear has it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/common/dynamic_quantization.h"
#include "ukernel/affine.h"
#include "ukernel/vector.h"

namespace quern::cpu {

// Of n elements and 0; NaNs are passed over.
inline DynamicQuantization DynamicQuantizationOf(const ukernel::VectorKernel& row, const float* x, int64_t n) {
  const auto count = static_cast<size_t>(n);
  float low = row.fold({.kind = ukernel::FoldKind::kMin, .n = count, .x = x});
  float high = row.fold({.kind = ukernel::FoldKind::kMax, .n = count, .x = x});
  if (std::isnan(low)) {
    low = high = 0;
    for (int64_t i = 0; i < n; ++i) {
      low = std::min(low, x[i]);
      high = std::max(high, x[i]);
    }
  }
  return QuantizationOfRange(std::min(low, 0.0f), std::max(high, 0.0f));
}

inline void QuantizeBytes(const ukernel::AffineKernel& affine, const DynamicQuantization& q, const float* x, int64_t n,
                          uint8_t* y) {
  affine.quantize(
      {.type = DType::kU8, .n = static_cast<size_t>(n), .x = x, .y = y, .scale = &q.scale, .zero = &q.zero_point});
}

}  // namespace quern::cpu
