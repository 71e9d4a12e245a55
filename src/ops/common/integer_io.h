// Quantized elements as int32, zero points, requantization: what the quantized operators share.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ops/op.h"

namespace quern {

// The elements of a contiguous integer tensor of at most 32 bits as int32. Sub-byte types hold the first element in the
// lowest bits; uint32 is not admitted.
std::vector<int32_t> WidenIntegers(const Tensor& t);
// The reverse, into a tensor as large as `values`, whose elements fit its type.
void NarrowIntegers(const std::vector<int32_t>& values, const Tensor& t);
// The range of an integer type of at most 32 bits.
struct IntegerRange {
  int64_t low, high;
};
IntegerRange RangeOf(DType t);

// Zero points of input i: `count` of them (a single one is repeated); zeros when the input is omitted.
inline Result<std::vector<int32_t>> ReadZeroPoints(EvalContext& c, int i, int64_t count) {
  if (!c.HasInput(i)) return std::vector<int32_t>(static_cast<size_t>(count), 0);
  std::vector<int32_t> values = WidenIntegers(c.input(i));
  if (values.size() == 1) values.resize(static_cast<size_t>(count), values[0]);
  if (static_cast<int64_t>(values.size()) != count) {
    return c.Error("zero point '" + c.node().input(i)->name() + "' has " + std::to_string(values.size()) +
                   " elements; 1 or " + std::to_string(count) + " are needed");
  }
  return values;
}

// Rounds half to even and clamps to the 8-bit type `to`.
inline int32_t RequantizeToByte(float value, int32_t zero_point, DType to) {
  const float low = to == DType::kI8 ? -128.0f : 0.0f;
  const float high = to == DType::kI8 ? 127.0f : 255.0f;
  const float q = std::nearbyintf(value) + static_cast<float>(zero_point);
  return static_cast<int32_t>(std::isnan(q) ? low : std::clamp(q, low, high));
}

inline void StoreByte(const Tensor& t, int64_t i, int32_t value) {
  static_cast<uint8_t*>(t.raw_data())[i] = static_cast<uint8_t>(value);  // the same bits for either sign
}

}  // namespace quern
