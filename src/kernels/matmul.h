// Matrix products: packed or run-time right sides, batches with broadcast, epilogues, static and dynamic int8, 4-bit
// blocks. The loops over micro-kernels are in gemm_core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/driver.h"
#include "kernels/gemm_core.h"
#include "kernels/packed_rhs.h"
#include "kernels/select.h"

namespace quern::kernels {

// Zero points of integer products: the result is the sum over k of (a - za) * (w - zw), in int32. Not for kI8d, whose
// rows have their own.
struct ZeroPoints {
  int32_t lhs = 0;
  const int32_t* lhs_rows = nullptr;     // [m] instead of `lhs`
  int32_t rhs = 0;                       // in the numbers of the source (kU8: 0..255)
  const int32_t* rhs_columns = nullptr;  // [n] instead of `rhs`
};

// One product, or a batch of them. For Plan, pointers may be null but where a null says that something is absent
// (packed_rhs, zero points' vectors, ops): strides and extents decide. dst must not overlap any operand.
struct MatMulArgs {
  size_t m = 0;
  const void* lhs = nullptr;              // element (m, k) at lhs + m*lhs_row_stride + k*lhs_k_stride
  ptrdiff_t lhs_row_stride = 0;           // bytes, any
  ptrdiff_t lhs_k_stride = 0;             // bytes; 0: contiguous (the element size). Others are gathered first
  const PackedRhs* packed_rhs = nullptr;  // constant right side, or
  ukernel::RhsSource rhs{};               // the run-time one: any strides, of the problem's format
  bool rhs_is_packed = false;             // the workspace still holds it, as a run of this plan packed it; no batch
  void* dst = nullptr;                    // [m][n] of EpilogueFormat(accumulator, ops)
  ptrdiff_t dst_row_stride = 0;           // bytes, at least a row
  std::span<const BatchDim> batch{};      // outermost first, at most kMaxBatchDims
  const EpilogueOp* ops = nullptr;        // operands indexed by (m, n) of one batch entry
  size_t op_count = 0;                    // at most kMaxEpilogueOps
  ZeroPoints zero_points{};
  // Columns from the last ones to the first: a caller that multiplies by the same weights again and again begins every
  // other time with those that the caches still hold. Results have the same bits.
  bool backwards = false;
};

// The decisions for one set of shapes; a plain value.
struct MatMulPlan {
  GemmPlan gemm;
  size_t m = 0;                                      // rows of one product after batches were merged into M
  ptrdiff_t lhs_row_stride = 0, dst_row_stride = 0;  // of the merged rows, bytes
  size_t batch_dims = 0;                             // dimensions that are left, outermost first
  size_t batch_count = 1;                            // their product
  bool gather_lhs = false;
  bool rhs_in_place = false;
  bool rhs_shared = false;  // one run-time right side for the whole batch
  // Of a run-time right side; null where the generic one packs it.
  const ukernel::PackKernel* rhs_packer = nullptr;
  bool parallel_batches = false;  // one task per batch entry; else each product is split
  // Workspace, bytes: the shared right side, then one area, or one per slot when parallel_batches.
  size_t area_offset = 0, area_stride = 0;
  size_t gather_offset = 0, rhs_offset = 0, sums_offset = 0, zeros_offset = 0, rows_offset = 0;  // within an area
  size_t core_offset = 0;
  size_t workspace_bytes = 0;
  int slots = 1;
};

class MatMul {
 public:
  MatMul() = default;

  // The layout must come from SelectLayout for the same problem and options (or be that of the packed weights).
  static Result<MatMul> Create(const GemmProblem& problem, const SelectOptions& options, const LayoutChoice& layout);

  const GemmProblem& problem() const { return problem_; }
  const LayoutChoice& layout() const { return layout_; }
  // The row that a call with M rows uses (never null).
  const GemmKernel* RowFor(size_t m) const;
  // The accumulator's format, from which EpilogueFormat tells what dst holds.
  Format accumulator() const;

  MatMulPlan Plan(const MatMulArgs& args, int concurrency) const;
  size_t WorkspaceBytes(const MatMulArgs& args, int concurrency) const {
    return Plan(args, concurrency).workspace_bytes;
  }

  // Computes args as planned. kInvalidArgument when the workspace is too small; kCancelled.
  Status Run(const MatMulPlan& plan, const MatMulArgs& args, const RunResources& resources) const;
  // Plan and run.
  Status Run(const MatMulArgs& args, const RunResources& resources) const;

 private:
  GemmProblem problem_;
  LayoutChoice layout_;
  CpuFacts cpu_;
  std::vector<const GemmKernel*> eligible_;
  std::vector<const GemmKernel*> fallbacks_;  // also those that an option hides
};

}  // namespace quern::kernels
