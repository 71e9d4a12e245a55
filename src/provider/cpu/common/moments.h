// What normalizations of float32 and float64 share.
#pragma once

#include <cmath>
#include <string>

#include "provider/cpu/common/fold_rows.h"

namespace quern::cpu {

// By what elements are shifted and scaled to have mean 0 and deviation 1.
template <typename T>
struct Moments {
  T mean = 0, inverse = 0;  // 1 / deviation
};

// Those of n neighbouring elements; without `subtract_mean` the mean counts as 0.
template <typename T>
Moments<T> MomentsOf(const ukernel::FoldFunctions<T>& folds, int64_t n, const T* x, bool subtract_mean, T epsilon) {
  using ukernel::FoldKind;
  const auto count = static_cast<size_t>(n);
  const T mean = subtract_mean ? folds.fold({.kind = FoldKind::kSum, .n = count, .x = x}) / static_cast<T>(n) : 0;
  const T squares = folds.fold({.kind = FoldKind::kSumSquares, .n = count, .x = x, .shift = mean});
  return {mean, T{1} / std::sqrt(squares / static_cast<T>(n) + epsilon)};
}

// y = (x - mean) * factor + bias.
template <typename T>
void Scale(const FoldRows& rows, int64_t n, const T* x, T mean, T factor, T bias, T* y) {
  if constexpr (std::is_same_v<T, float>) {
    rows.vector->normalize(
        {.n = static_cast<size_t>(n), .x = x, .y = y, .shift = mean, .scale = factor, .offset = bias});
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * factor + bias;
  }
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
