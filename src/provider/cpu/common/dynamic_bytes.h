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
  constexpr int64_t kBlock = 4096;  // elements, both of whose extremes are looked for while L1 holds them
  float low = 0, high = 0;
  for (const float* end = x + n; x < end; x += std::min<int64_t>(kBlock, end - x)) {
    const auto count = static_cast<size_t>(std::min<int64_t>(kBlock, end - x));
    const float least = row.fold({.kind = ukernel::FoldKind::kMin, .n = count, .x = x});
    const float most = row.fold({.kind = ukernel::FoldKind::kMax, .n = count, .x = x});
    if (!std::isnan(least)) {
      low = std::min(low, least);
      high = std::max(high, most);
      continue;
    }
    for (size_t i = 0; i < count; ++i) {
      low = std::min(low, x[i]);
      high = std::max(high, x[i]);
    }
  }
  return QuantizationOfRange(low, high);
}

inline void QuantizeBytes(const ukernel::AffineKernel& affine, const DynamicQuantization& q, const float* x, int64_t n,
                          uint8_t* y) {
  affine.quantize(
      {.type = DType::kU8, .n = static_cast<size_t>(n), .x = x, .y = y, .scale = &q.scale, .zero = &q.zero_point});
}

}  // namespace quern::cpu
