// Matrix products of ops.h.
#include <algorithm>
#include <array>

#include "api/ops.h"
#include "api/struct_size.h"
#include "api/value.h"

namespace quern::api {
namespace {

using kernels::BatchDim;
using kernels::GemmProblem;
using kernels::MatMulArgs;
using ukernel::Format;

bool IsBlockFormat(Format f) { return f == Format::kU4 || f == Format::kU2; }

// Types and extents of a spec; kInvalidArgument where they do not go together.
Result<GemmProblem> ReadProblem(const quern_matmul_spec& s) {
  GemmProblem p;
  QUERN_ASSIGN_OR_RETURN(p.lhs, ReadFormat(s.lhs, "spec.lhs", /*takes_f64=*/true));
  QUERN_ASSIGN_OR_RETURN(p.rhs, ReadFormat(s.rhs, "spec.rhs", /*takes_f64=*/true));
  QUERN_RETURN_IF_ERROR(CheckExtents({s.n, s.k, std::max<size_t>(s.rhs_batches, 1)}, "spec.n and spec.k"));
  if (IsBlockFormat(p.lhs) || IsGguf(p.lhs)) return InvalidArgument("spec.lhs is of a block format");
  if ((p.lhs == Format::kF64) != (p.rhs == Format::kF64)) {
    return InvalidArgument("f64 is multiplied by f64 alone: spec.lhs and spec.rhs");
  }
  if (s.dynamic_quantization) {
    if (p.lhs != Format::kF32) return InvalidArgument("spec.dynamic_quantization needs a float32 lhs");
    p.lhs = Format::kI8d;
    p.channel_scales = p.rhs == Format::kI8 && s.block == 0;
  }
  p.n = s.n;
  p.k = s.k;
  p.expected_m = s.expected_m;
  p.rhs_constant = s.rhs_data != nullptr;
  if (IsBlockFormat(p.rhs) || s.block) {
    if (!s.block || !s.scales) return InvalidArgument("blocks need spec.block and spec.scales");
    QUERN_ASSIGN_OR_RETURN(p.scale, ReadFormat(s.scale_type, "spec.scale_type"));
    if (p.scale != Format::kF32 && p.scale != Format::kF16 && p.scale != Format::kBf16) {
      return InvalidArgument("spec.scale_type is no float type");
    }
    p.block = s.block;
    if (s.zero_points) p.zero_point = Format::kU8;
  }
  if ((p.block || IsGguf(p.rhs)) && !s.rhs_data)
    return InvalidArgument("block formats must be constant: spec.rhs_data");
  return p;
}

ukernel::RhsSource ReadSource(const quern_matmul_spec& s, const GemmProblem& p) {
  ukernel::RhsSource source;
  source.format = p.rhs;
  source.data = s.rhs_data;
  source.channel_scales = s.channel_scales;
  const size_t blocks = p.block ? ukernel::CeilDiv(p.k, p.block) : ukernel::CeilDiv(p.k, ukernel::kGgufBlock);
  if (IsGguf(p.rhs)) {
    const DType type = static_cast<DType>(s.rhs);
    source.block_stride = static_cast<ptrdiff_t>(quern_dtype_block_bytes(static_cast<int32_t>(type)));
    source.n_stride = static_cast<ptrdiff_t>(blocks) * source.block_stride;
    return source;
  }
  if (p.block) {
    const size_t bits = FormatBits(p.rhs);
    source.block_stride = static_cast<ptrdiff_t>(p.block * bits / 8);
    source.n_stride = static_cast<ptrdiff_t>(blocks) * source.block_stride;
    source.scales = s.scales;
    source.scale_format = p.scale;
    source.scale_block_stride = static_cast<ptrdiff_t>(FormatBytes(p.scale));
    source.scale_n_stride = static_cast<ptrdiff_t>(blocks) * source.scale_block_stride;
    source.zero_points = s.zero_points;
    source.zero_point_format = p.rhs;
    source.zero_point_n_stride = static_cast<ptrdiff_t>(ukernel::CeilDiv(blocks * bits, 8));
    return source;
  }
  const auto element = static_cast<ptrdiff_t>(FormatBytes(p.rhs));
  const bool dense = s.rhs_k_stride == 0 && s.rhs_n_stride == 0;
  source.k_stride = (dense ? static_cast<ptrdiff_t>(p.n) : s.rhs_k_stride) * element;
  source.n_stride = (dense ? 1 : s.rhs_n_stride) * element;
  return source;
}

// Products of float64 give float64, as they are.
Status CheckDoubles(const quern_matmul_spec& s, DType dst) {
  if (dst != DType::kF64) return InvalidArgument(std::string("spec.dst is ") + DTypeName(dst) + "; f64 by f64 is f64");
  if (s.epilogue) return InvalidArgument("spec.epilogue must be NULL for f64");
  return OkStatus();
}

// The driver's arguments of a call; batch dimensions lie in `dims`, operations in `ops`.
struct Call {
  MatMulArgs args;
  std::array<BatchDim, kernels::kMaxBatchDims> dims;
  std::array<ukernel::EpilogueOp, ukernel::kMaxEpilogueOps> ops;
  bool empty = false;
};

Status ReadCall(const quern_op& op, const MatMulOp& m, const quern_matmul_args* given, Call& call) {
  QUERN_RETURN_IF_ERROR(RequirePointer(given, "args"));
  QUERN_ASSIGN_OR_RETURN(const quern_matmul_args a, ReadStruct(given, "args"));
  const GemmProblem& p = m.problem;
  QUERN_RETURN_IF_ERROR(CheckExtents({a.m, std::max(p.n, p.k)}, "args.m and the operator's extents"));
  if (a.batch_dims > QUERN_OPS_MAX_BATCH_DIMS) return InvalidArgument("args.batch_dims is more than 6");
  const Format lhs = p.lhs == Format::kI8d ? Format::kF32 : p.lhs;
  const auto lhs_element = static_cast<ptrdiff_t>(FormatBytes(lhs)),
             rhs_element = static_cast<ptrdiff_t>(FormatBytes(p.rhs));
  const auto dst_element = static_cast<ptrdiff_t>(DTypeBytes(op.dst)), n = static_cast<ptrdiff_t>(p.n);
  const ptrdiff_t dst_row = a.dst_row_stride ? a.dst_row_stride : n;
  if (dst_row < n) return InvalidArgument("args.dst_row_stride is less than n");
  const bool residual = op.epilogue.residual >= 0;
  std::copy(op.epilogue.ops.begin(), op.epilogue.ops.end(), call.ops.begin());
  MatMulArgs& to = call.args;
  if (residual) {
    ukernel::EpilogueOp& add = call.ops[static_cast<size_t>(op.epilogue.residual)];
    add.data = a.residual;
    add.row_stride = static_cast<size_t>(a.residual_row_stride ? a.residual_row_stride : n) * sizeof(float);
  }
  to.m = a.m;
  to.lhs = a.lhs;
  to.lhs_row_stride = (a.lhs_row_stride ? a.lhs_row_stride : static_cast<ptrdiff_t>(p.k)) * lhs_element;
  to.dst = a.dst;
  to.dst_row_stride = dst_row * dst_element;
  to.ops = call.ops.data();
  to.op_count = op.epilogue.ops.size();
  to.zero_points = {.lhs = m.lhs_zero_point,
                    .rhs = m.rhs_zero_point,
                    .rhs_columns = m.rhs_zero_points.empty() ? nullptr : m.rhs_zero_points.data()};
  if (m.packed) {
    to.packed_rhs = &*m.packed;
  } else {
    to.rhs = m.rhs;
    to.rhs.data = a.rhs;
  }
  size_t count = 0, total = 1, last = 0;
  for (size_t d = 0; d < a.batch_dims; ++d) {
    if (a.batch[d] == 0) call.empty = true;
    if (a.batch[d] <= 1) continue;
    BatchDim& dim = call.dims[count++];
    dim = {.count = a.batch[d],
           .lhs = a.lhs_batch_strides[d] * lhs_element,
           .rhs = m.packed ? a.rhs_batch_strides[d] : a.rhs_batch_strides[d] * rhs_element,
           .dst = a.dst_batch_strides[d] * dst_element};
    if (residual) {
      dim.ops[op.epilogue.residual] = a.residual_batch_strides[d] * static_cast<ptrdiff_t>(sizeof(float));
    }
    QUERN_RETURN_IF_ERROR(CheckExtents({total, a.batch[d], std::max<size_t>(a.m, 1)}, "args.batch and args.m"));
    total *= a.batch[d];
    if (m.packed) {
      if (dim.rhs < 0) return InvalidArgument("args.rhs_batch_strides of a constant right side must not be negative");
      QUERN_RETURN_IF_ERROR(CheckExtents({static_cast<size_t>(dim.rhs), a.batch[d]}, "args.rhs_batch_strides"));
      last += static_cast<size_t>(dim.rhs) * (a.batch[d] - 1);
    }
  }
  if (m.packed && last >= m.batches) {
    return InvalidArgument("args.rhs_batch_strides reach batch " + std::to_string(last) + " of a right side of " +
                           std::to_string(m.batches));
  }
  to.batch = std::span<const BatchDim>(call.dims.data(), count);
  call.empty |= a.m == 0 || p.n == 0;
  return OkStatus();
}

}  // namespace
}  // namespace quern::api

using quern::InvalidArgument;
using quern::OkStatus;
using quern::Status;
using namespace quern::api;

extern "C" {

quern_status quern_ops_matmul_create(const quern_matmul_spec* spec, const quern_ops_options* options, quern_op** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(spec, "spec"));
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    QUERN_ASSIGN_OR_RETURN(const quern_matmul_spec s, ReadStruct(spec, "spec"));
    QUERN_ASSIGN_OR_RETURN(std::unique_ptr<quern_op> op, NewOp(options));
    QUERN_ASSIGN_OR_RETURN(op->dst, ReadDType(s.dst));
    MatMulOp m;
    QUERN_ASSIGN_OR_RETURN(m.problem, ReadProblem(s));
    const bool integers = quern::ukernel::IsInt8(m.problem.lhs);
    m.problem.precision = integers ? quern::ukernel::Precision::kExact : op->precision;
    if (m.problem.lhs == quern::ukernel::Format::kF64) {
      QUERN_RETURN_IF_ERROR(CheckDoubles(s, op->dst));
    } else {
      QUERN_ASSIGN_OR_RETURN(op->epilogue, ReadEpilogue(s.epilogue, s.n, integers, op->dst));
    }
    const quern::ukernel::RhsSource source = ReadSource(s, m.problem);
    m.problem.rhs_contiguous = source.n_stride == static_cast<ptrdiff_t>(quern::ukernel::FormatBytes(m.problem.rhs));
    QUERN_ASSIGN_OR_RETURN(const quern::kernels::LayoutChoice layout,
                           quern::kernels::SelectLayout(m.problem, op->options));
    QUERN_ASSIGN_OR_RETURN(m.driver, quern::kernels::MatMul::Create(m.problem, op->options, layout));
    m.lhs_zero_point = s.lhs_zero_point;
    m.rhs_zero_point = s.rhs_zero_point;
    if (s.rhs_zero_points && integers) m.rhs_zero_points.assign(s.rhs_zero_points, s.rhs_zero_points + s.n);
    m.batches = std::max<size_t>(s.rhs_batches, 1);
    if (s.rhs_data) {
      const auto element = static_cast<ptrdiff_t>(quern::ukernel::FormatBytes(m.problem.rhs));
      const bool rows = source.block_stride != 0;  // of blocks, one for each column
      const ptrdiff_t matrix =
          rows ? source.n_stride * static_cast<ptrdiff_t>(s.n) : static_cast<ptrdiff_t>(s.n * s.k) * element;
      const ptrdiff_t between = s.rhs_batch_stride && !rows ? s.rhs_batch_stride * element : matrix;
      QUERN_ASSIGN_OR_RETURN(quern::kernels::PackedRhs packed,
                             quern::kernels::PackedRhs::Pack(m.problem, layout, source, OpsPacking(options),
                                                             op->options.cpu, m.batches, between));
      m.packed = std::move(packed);
    } else {
      if (m.batches > 1) return InvalidArgument("spec.rhs_batches is for a constant right side");
      m.rhs = source;
    }
    op->op = std::move(m);
    *out = op.release();
    return OkStatus();
  });
}

quern_status quern_ops_matmul_workspace(const quern_op* op, const quern_matmul_args* args,
                                        const quern_executor* executor, size_t* bytes) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(bytes, "bytes"));
    QUERN_ASSIGN_OR_RETURN(const MatMulOp* m, ReadOp<MatMulOp>(op, "matrix product"));
    Call call;
    QUERN_RETURN_IF_ERROR(ReadCall(*op, *m, args, call));
    *bytes = call.empty ? 0 : m->driver.Plan(call.args, Concurrency(executor)).workspace_bytes;
    return OkStatus();
  });
}

quern_status quern_ops_matmul_run(const quern_op* op, const quern_matmul_args* args, const quern_ops_run* run) {
  return Guard([&]() -> Status {
    QUERN_ASSIGN_OR_RETURN(const MatMulOp* m, ReadOp<MatMulOp>(op, "matrix product"));
    Call call;
    QUERN_RETURN_IF_ERROR(ReadCall(*op, *m, args, call));
    quern::InlineExecutor inline_executor;
    QUERN_ASSIGN_OR_RETURN(const quern::kernels::RunResources resources, ReadRun(run, inline_executor));
    if (call.empty) return OkStatus();
    QUERN_RETURN_IF_ERROR(RequirePointer(call.args.dst, "args.dst"));
    if (m->problem.k) {
      QUERN_RETURN_IF_ERROR(RequirePointer(call.args.lhs, "args.lhs"));
      if (!m->packed) QUERN_RETURN_IF_ERROR(RequirePointer(call.args.rhs.data, "args.rhs"));
    }
    if (op->epilogue.residual >= 0) {
      QUERN_RETURN_IF_ERROR(RequirePointer(call.ops[static_cast<size_t>(op->epilogue.residual)].data, "args.residual"));
    }
    return m->driver.Run(call.args, resources);
  });
}

}  // extern "C"
