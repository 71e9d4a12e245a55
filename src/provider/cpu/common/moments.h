// What normalizations of float32 (through micro-kernels) and of float64 (plain loops) share.
#pragma once

#include <cmath>
#include <string>

#include "provider/cpu/common/loops.h"

namespace quern::cpu {

// By what elements are shifted and scaled to have mean 0 and deviation 1.
template <typename T>
struct Moments {
  T mean = 0, inverse = 0;  // 1 / deviation
};

// Those of n neighbouring elements; without `subtract_mean` the mean counts as 0.
inline Moments<float> MomentsOf(const ukernel::VectorKernel& row, int64_t n, const float* x, bool subtract_mean,
                                float epsilon) {
  using ukernel::FoldKind;
  const auto count = static_cast<size_t>(n);
  const float mean = subtract_mean ? row.fold({.kind = FoldKind::kSum, .n = count, .x = x}) / static_cast<float>(n) : 0;
  const float squares = row.fold({.kind = FoldKind::kSumSquares, .n = count, .x = x, .shift = mean});
  return {mean, 1.0f / std::sqrt(squares / static_cast<float>(n) + epsilon)};
}
inline Moments<double> MomentsOf(const ukernel::VectorKernel&, int64_t n, const double* x, bool subtract_mean,
                                 double epsilon) {
  const auto count = static_cast<double>(n);
  double mean = 0, squares = 0;
  for (int64_t i = 0; subtract_mean && i < n; ++i) mean += x[i];
  if (subtract_mean) mean /= count;
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  return {mean, 1.0 / std::sqrt(squares / count + epsilon)};
}

// y = (x - mean) * factor + bias.
template <typename T>
void Scale(int64_t n, const T* x, T mean, T factor, T bias, T* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * factor + bias;
}

// Empty when all inputs are float32, or all float64.
inline std::string RejectMixedFloats(const Node& node) {
  if (std::string why = RejectUnlessType(node.input(0), {DType::kF32, DType::kF64}); !why.empty()) return why;
  for (const GraphValue* v : node.inputs()) {
    if (std::string why = RejectUnlessType(v, {node.input(0)->type().dtype}); !why.empty()) return why;
  }
  return {};
}

// f.operator()<float>() or <double>(), as the first input has it.
template <typename F>
Result<std::unique_ptr<CpuStep>> ByFloatType(const BindContext& context, F f) {
  if (context.inputs[0].dtype == DType::kF64) return f.template operator()<double>();
  return f.template operator()<float>();
}

}  // namespace quern::cpu
