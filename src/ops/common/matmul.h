// What the matrix products share: numpy shapes of MatMul, batches, and a plain product that stands as the oracle.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/op.h"

namespace quern {

// The numpy shape of a @ b: batches broadcast, a vector on the left is a row, on the right a column, and its dimension
// is dropped from the result. Errors name the node.
Result<Dims> MatMulDims(const Node& node, const Dims& a, const Dims& b);
// Infers output 0 of `dtype` from the shapes of inputs `a` and `b`.
Status InferMatMul(InferContext& context, int a, int b, DType dtype);

// The loops of a product of actual shapes that MatMulDims accepts.
struct MatMulLoops {
  int64_t m, n, k;
  // Offsets (elements) of each product's matrices; the output's are dense.
  std::vector<int64_t> a_offset, b_offset;
};
MatMulLoops MakeMatMulLoops(const Shape& a, const Shape& b);

// row[j] = sum over k of a[k] * b[k, j], b of [k, n] with the strides given. All sums are of type Acc.
template <typename A, typename B, typename Acc>
void MultiplyRow(int64_t n, int64_t k, const A* a, int64_t a_stride, const B* b, int64_t b_row_stride,
                 int64_t b_column_stride, Acc* row) {
  std::fill(row, row + n, Acc{0});
  if (b_column_stride == 1) {
    for (int64_t p = 0; p < k; ++p) {
      const Acc value = static_cast<Acc>(a[p * a_stride]);
      const B* in = b + p * b_row_stride;
      for (int64_t j = 0; j < n; ++j) row[j] += value * static_cast<Acc>(in[j]);
    }
    return;
  }
  for (int64_t j = 0; j < n; ++j) {
    const B* in = b + j * b_column_stride;
    Acc sum{0};
    for (int64_t p = 0; p < k; ++p) sum += static_cast<Acc>(a[p * a_stride]) * static_cast<Acc>(in[p * b_row_stride]);
    row[j] = sum;
  }
}

}  // namespace quern
