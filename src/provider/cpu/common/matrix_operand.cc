#include "provider/cpu/common/matrix_operand.h"

#include <algorithm>

#include "provider/cpu/common/epilogue.h"

namespace quern::cpu {

MatrixOperand MatrixOf(const TensorSpec& s, bool vector_is_column) {
  MatrixOperand o{};
  const int r = s.shape.rank();
  const auto element = static_cast<ptrdiff_t>(DTypeBytes(s.dtype));
  if (r == 1) {
    const ptrdiff_t step = s.strides[0] * element;
    o = vector_is_column ? MatrixOperand{s.shape[0], 1, step, element, {}, {}}
                         : MatrixOperand{1, s.shape[0], 0, step, {}, {}};
    return o;
  }
  o.rows = s.shape[r - 2];
  o.cols = s.shape[r - 1];
  o.row_stride = s.strides[r - 2] * element;
  o.col_stride = s.strides[r - 1] * element;
  for (int i = 0; i < r - 2; ++i) {
    o.batch.push_back(s.shape[i]);
    o.batch_strides.push_back(s.strides[i] * element);
  }
  return o;
}

std::optional<std::vector<kernels::BatchDim>> BatchDims(const MatrixOperand& lhs, const MatrixOperand& rhs,
                                                        ptrdiff_t dst, ptrdiff_t dst_element, int matrix_op) {
  const int rank = std::max(lhs.batch.rank(), rhs.batch.rank());
  std::vector<kernels::BatchDim> dims(static_cast<size_t>(rank));
  for (int i = 1; i <= rank; ++i) {
    kernels::BatchDim& d = dims[static_cast<size_t>(rank - i)];
    const int la = lhs.batch.rank() - i, lb = rhs.batch.rank() - i;
    const int64_t ca = la < 0 ? 1 : lhs.batch[la], cb = lb < 0 ? 1 : rhs.batch[lb];
    d.count = static_cast<size_t>(ca == 1 ? cb : ca);
    d.lhs = ca == 1 ? 0 : lhs.batch_strides[la];
    d.rhs = cb == 1 ? 0 : rhs.batch_strides[lb];
    d.dst = dst * dst_element;
    if (matrix_op >= 0) d.ops[matrix_op] = dst * static_cast<ptrdiff_t>(sizeof(float));
    dst *= static_cast<ptrdiff_t>(d.count);
  }
  std::vector<kernels::BatchDim> merged;
  for (const kernels::BatchDim& d : dims) {
    if (d.count == 1) continue;
    const ptrdiff_t c = static_cast<ptrdiff_t>(d.count);
    kernels::BatchDim* outer = merged.empty() ? nullptr : &merged.back();
    if (outer && outer->lhs == d.lhs * c && outer->rhs == d.rhs * c && outer->dst == d.dst * c) {
      const size_t count = outer->count * d.count;
      *outer = d;
      outer->count = count;
    } else {
      merged.push_back(d);
    }
  }
  if (merged.size() > kernels::kMaxBatchDims) return std::nullopt;
  return merged;
}

ukernel::RhsSource RunTimeSource(const MatrixOperand& rhs, ukernel::Format format) {
  ukernel::RhsSource source;
  source.format = format;
  source.k_stride = rhs.row_stride;
  source.n_stride = rhs.col_stride;
  return source;
}

Result<std::shared_ptr<const kernels::MatMul>> RunTimeProduct(kernels::GemmProblem problem, size_t m,
                                                              const MatrixOperand& rhs, const CpuConfig& config) {
  problem.n = static_cast<size_t>(rhs.cols);
  problem.k = static_cast<size_t>(rhs.rows);
  problem.expected_m = m;
  problem.rhs_constant = false;
  problem.rhs_contiguous = rhs.col_stride == static_cast<ptrdiff_t>(FormatBytes(problem.rhs));
  return RunTimeDriversFor(config)->FindProduct(problem);
}

}  // namespace quern::cpu
