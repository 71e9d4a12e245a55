// Operators behind ops.h: what their handles hold, and what creating and running them has in common.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/error.h"
#include "base/cpu.h"
#include "kernels/attention.h"
#include "kernels/convolution.h"
#include "kernels/matmul.h"
#include "quern/ops.h"

namespace quern::api {

// The epilogue of a spec as the drivers take it, with copies of its vectors.
struct OpsEpilogue {
  std::vector<ukernel::EpilogueOp> ops;
  std::vector<float> bias, scales;
  std::vector<int32_t> integer_bias;
  int residual = -1;  // position in ops
};

// `integers`: the accumulator is int32. `n` results of a row are of type dst.
Result<OpsEpilogue> ReadEpilogue(const quern_ops_epilogue* given, size_t n, bool integers, DType dst);

struct MatMulOp {
  kernels::GemmProblem problem;
  kernels::MatMul driver;
  std::optional<kernels::PackedRhs> packed;
  ukernel::RhsSource rhs;  // of runs, but for the data
  size_t batches = 0;
  int32_t lhs_zero_point = 0, rhs_zero_point = 0;
  std::vector<int32_t> rhs_zero_points;
};

struct ConvOp {
  kernels::ConvProblem problem;
  kernels::Convolution driver;
  int spatial = 2;
  bool channels_first = false;
  size_t in_bytes = 0;  // of an element
  int32_t input_zero_point = 0, filter_zero_point = 0;
  std::vector<int32_t> filter_zero_points;

  // Whether the driver itself writes NCHW.
  bool stores_channels_first() const { return channels_first && driver.algorithm() == kernels::ConvAlgorithm::kDirect; }
};

struct AttentionOp {
  kernels::AttentionSizes sizes;
  kernels::Attention driver;
  int concurrency = 1;
  ukernel::Precision precision = ukernel::Precision::kFp32;
};

}  // namespace quern::api

struct quern_op {
  std::string kernel;  // options.force_row
  quern::CpuInfo cpu;
  quern::kernels::SelectOptions options;
  quern::ukernel::Precision precision = quern::ukernel::Precision::kFp32;
  quern::DType dst = quern::DType::kF32;
  quern::api::OpsEpilogue epilogue;
  std::variant<quern::api::MatMulOp, quern::api::ConvOp, quern::api::AttentionOp> op;
};

namespace quern::api {

// A handle without its operator yet: options read and checked.
Result<std::unique_ptr<quern_op>> NewOp(const quern_ops_options* options);
// Packing on the executor of the options, or on the calling thread.
kernels::Packing OpsPacking(const quern_ops_options* options);

// The operator of that kind behind a handle; kInvalidArgument for null and for others.
template <class Op>
Result<const Op*> ReadOp(const quern_op* op, const char* kind) {
  QUERN_RETURN_IF_ERROR(RequirePointer(op, "op"));
  const Op* found = std::get_if<Op>(&op->op);
  if (!found) return InvalidArgument(std::string("op is no ") + kind);
  return found;
}

// The type of an operand: kInvalidArgument names the field where its operator does not take it. Most take no float64.
Result<ukernel::Format> ReadFormat(int32_t dtype, const char* field, bool takes_f64 = false);
// kInvalidArgument unless the product of the extents, which the field names, stays far below what sizes can hold.
Status CheckExtents(std::initializer_list<size_t> extents, const char* what);

int Concurrency(const quern_executor* executor);
// `inline_executor` where the run has none.
Result<kernels::RunResources> ReadRun(const quern_ops_run* run, InlineExecutor& inline_executor);
// What the driver's kernels need to know about the results' type; kInvalidArgument for those that cannot be.
Status CheckDst(DType dst, bool integers);

}  // namespace quern::api
