// What an LSTM makes of the sums of its gates.
#pragma once

#include <cstdint>

#include "ukernel/vector.h"

namespace quern::cpu {

// One sample of n hidden units: `gates` (input, output, forget, cell; n each) are changed, h and c become the next
// ones.
inline void FinishLstm(const ukernel::VectorKernel& row, int64_t n, float* gates, float* h, float* c) {
  const auto apply = [&row](ukernel::UnaryKind kind, float* x, int64_t count) {
    row.unary({.kind = kind, .n = static_cast<size_t>(count), .x = x, .y = x});
  };
  apply(ukernel::UnaryKind::kSigmoid, gates, 3 * n);
  apply(ukernel::UnaryKind::kTanh, gates + 3 * n, n);
  const float *in = gates, *out = gates + n, *forget = gates + 2 * n, *cell = gates + 3 * n;
  for (int64_t i = 0; i < n; ++i) {
    c[i] = forget[i] * c[i] + in[i] * cell[i];
    h[i] = c[i];
  }
  apply(ukernel::UnaryKind::kTanh, h, n);
  for (int64_t i = 0; i < n; ++i) h[i] *= out[i];
}

}  // namespace quern::cpu
