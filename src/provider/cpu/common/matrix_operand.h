// Operands of batched matrix products as tensors give them, and products whose right side comes with the run.
#pragma once

#include <optional>
#include <vector>

#include "kernels/matmul.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {

// One operand in matrix form: the last two dimensions and the batch dimensions before them.
struct MatrixOperand {
  int64_t rows, cols;                // extents of the last two dimensions
  ptrdiff_t row_stride, col_stride;  // bytes
  Shape batch, batch_strides;        // strides in bytes

  void Transpose() {
    std::swap(rows, cols);
    std::swap(row_stride, col_stride);
  }
};
// A vector is one row, or one column.
MatrixOperand MatrixOf(const TensorSpec& s, bool vector_is_column);

// Batch dimensions of both sides, right-aligned, outermost first; the output is contiguous. Dimensions that walk all
// operands as one become one. `dst`: elements of one product, each of `dst_element` bytes; `matrix_op`: the epilogue
// operation whose float32 matrix is walked as the output is, or -1. Nothing when more are left than the driver takes.
std::optional<std::vector<kernels::BatchDim>> BatchDims(const MatrixOperand& lhs, const MatrixOperand& rhs,
                                                        ptrdiff_t dst, ptrdiff_t dst_element, int matrix_op);

// A right side that comes with the run, but for its data.
ukernel::RhsSource RunTimeSource(const MatrixOperand& rhs, ukernel::Format format);
// The product of about `m` rows with such a right side: `problem` has the types and the precision, its extents are
// those of `rhs`.
Result<std::shared_ptr<const kernels::MatMul>> RunTimeProduct(kernels::GemmProblem problem, size_t m,
                                                              const MatrixOperand& rhs, const CpuConfig& config);

}  // namespace quern::cpu
