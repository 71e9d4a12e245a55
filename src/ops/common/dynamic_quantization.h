// The quantization to u8 that a tensor's own range gives: DynamicQuantizeLinear and what builds on it.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "ops/common/integer_io.h"

namespace quern {

struct DynamicQuantization {
  float scale;
  uint8_t zero_point;

  uint8_t Quantize(float x) const { return static_cast<uint8_t>(RequantizeToByte(x / scale, zero_point, DType::kU8)); }
};

// Of values from low to high, 0 among them. A range without a number for its zero point, from minus infinity, has 0.
inline DynamicQuantization QuantizationOfRange(float low, float high) {
  // A tensor of zeros has no range; any scale serves.
  const float scale = low == high ? 1.0f : (high - low) / 255.0f;
  return {scale, static_cast<uint8_t>(std::nearbyint(std::fmin(std::fmax(-low / scale, 0.0f), 255.0f)))};
}

// Of the range of all values and 0.
inline DynamicQuantization QuantizationOfRange(std::span<const float> values) {
  float low = 0, high = 0;
  for (const float v : values) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  return QuantizationOfRange(low, high);
}

}  // namespace quern
