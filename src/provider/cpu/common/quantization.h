// What quantized graphs say: scales and zero points of QuantizeLinear and DequantizeLinear, and the attributes of this
// provider's products on integers.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {

// real = (stored - zero point) * scale
struct Quantization {
  std::vector<float> scales;         // one, or one for each index of `axis`; finite, positive
  std::vector<int32_t> zero_points;  // as many
  int axis = -1;                     // not negative where there are several scales
  bool per_tensor() const { return scales.size() == 1; }
  bool operator==(const Quantization&) const = default;
};

// Whether the attribute 'precision' of a QuantizeLinear of float32 asks for nothing else.
bool DividesInFloat(const Node& node);

// That of a QuantizeLinear or DequantizeLinear between float32 and integers whose scales and zero points are constants;
// nothing for other nodes, scales of blocks and scales that are not finite and positive.
std::optional<Quantization> QuantizationOf(const Node& node);

inline bool IsByte(DType type) { return type == DType::kI8 || type == DType::kU8; }
// Of a node that stores or reads bytes with one scale and zero point for all; nothing for others.
std::optional<Quantization> ByteQuantizationOf(const Node& node);

// The DequantizeLinear of constants that makes `value`, if this provider computes it; else null.
const Node* DequantizedConstant(const GraphValue* value, const CpuConfig& config);

// A Conv or MatMul of kCpuDomain whose input 0 holds integers multiplies what is stored:
//   y = sum (x - x_zero_point)(w - w_zero_point[n]) [+ int32 bias[n]], times scale[n] [+ float32 bias[n]] ...
// and the attributes "y_scale", "y_zero_point", "y_type" (a DType), where given, quantize the result of the epilogue;
// of type int32, y is the sums.
inline constexpr int kScaleInput = 4;       // constant float32 [N]: scale of x times scale of w
inline constexpr int kWeightZeroInput = 5;  // constant int32 [N], or, of a Conv, one byte as w is; omitted: 0
inline constexpr int kInputZeroInput = 6;   // Conv only: one byte as x is, in the place of x_zero_point

// Element i of int8 or uint8.
inline int32_t ByteAt(const void* data, DType type, int64_t i) {
  return type == DType::kI8 ? static_cast<const int8_t*>(data)[i] : static_cast<const uint8_t*>(data)[i];
}

// Element type of the node's output.
DType ProductType(const Node& node);

struct ProductZeroPoints {
  int32_t x = 0;
  int32_t w = 0;
  Tensor w_each;                       // int32 [N] instead of w, where they differ
  DType x_of_run = DType::kUndefined;  // the type of the byte that comes with the run instead of x, if one does
  DType w_of_run = DType::kUndefined;
  const int32_t* w_vector() const { return w_each.defined() ? w_each.data<int32_t>() : nullptr; }
};
Result<ProductZeroPoints> ZeroPointsOf(const Node& node);

}  // namespace quern::cpu
