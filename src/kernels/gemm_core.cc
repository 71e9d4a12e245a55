// Runs a planned product: groups of columns, blocks of prepared rows, and their parts over threads.
#include "kernels/gemm_core.h"

#include <algorithm>

#include "kernels/gemm_block.h"

namespace quern::kernels {
namespace {

using ukernel::EpilogueKind;
using ukernel::FusedLength;

// Packs the rows [m0, m1) of a block of the left side; m0 is a multiple of the tile.
void PrepareRows(const GemmBlock& b, size_t m0, size_t m1) {
  const GemmPlan& p = b.p;
  const GemmKernel& row = *p.main.row;
  ukernel::LhsShape shape = p.lhs_shape;
  shape.m = b.m;
  ukernel::LhsSource source;
  source.format = p.lhs_format;
  if (b.operands.image) {
    const void** pointers = reinterpret_cast<const void**>(b.workspace + p.pointers_offset);
    for (size_t t = 0; t < p.segments; ++t) {
      FillPointers(*b.operands.image, b.row0 + m0, m1 - m0, t, 1, b.m, pointers + t * b.m + m0);
    }
    source.form = ukernel::kLhsRowPointers;
    source.row_pointers = pointers;
    source.row_pointer_pitch = b.m;
    source.zero_row = b.operands.image->zero_row;
  } else {
    source.data = b.operands.lhs;
    source.row_stride = b.operands.lhs_row_stride;
  }
  char* packed = b.workspace + p.lhs_offset;
  const size_t unit = p.lhs_geometry.m_unit;
  const auto pack = p.lhs_pack ? p.lhs_pack->run : ukernel::PackLhs;
  for (size_t m = m0; m < m1; m += p.main.tile_m) {
    const size_t end = std::min(m1, m + p.main.tile_m);
    const uint32_t found = pack(row.lhs_layout, shape, source, m / unit, ukernel::CeilDiv(end, unit), packed);
    b.lhs_flags()[m / p.main.tile_m] = static_cast<uint8_t>(found);
  }
  if (row.lhs == Format::kI8d && p.acc_format == Format::kI32) {
    const ukernel::LhsGeometry g = ukernel::DescribeLhs(row.lhs_layout, shape);
    const float* zeros = reinterpret_cast<const float*>(packed + g.negated_zero_points_offset);
    int32_t* out = reinterpret_cast<int32_t*>(b.workspace + p.lhs_zeros_offset);
    for (size_t m = m0; m < m1; ++m) out[m] = static_cast<int32_t>(zeros[m]);
  }
}

// The operands of the ops that DynamicOps lists.
void BindDynamicOps(const GemmBlock& b, EpilogueOp* ops, size_t count) {
  if (count == 0) return;
  const GemmPlan& p = b.p;
  ukernel::LhsShape shape = p.lhs_shape;
  shape.m = b.m;
  const ukernel::LhsGeometry g = ukernel::DescribeLhs(p.main.row->lhs_layout, shape);
  const char* packed = b.workspace + p.lhs_offset;
  ops[0].data = p.acc_format == Format::kI32 ? b.workspace + p.lhs_zeros_offset : packed + g.negated_zero_points_offset;
  ops[0].data2 = b.operands.rhs + p.rhs_geometry.sums_offset;
  ops[1].data = packed + g.scales_offset;
  if (count > 2) ops[2].data = b.operands.rhs + p.rhs_geometry.channel_scales_offset;
}

// Packs the whole block of the left side, in one region.
Status Prepare(const GemmBlock& b, const RunResources& r) {
  const GemmPlan& p = b.p;
  const size_t tile_m = p.main.tile_m;
  const size_t tiles = ukernel::CeilDiv(b.m, tile_m);
  const size_t parts = std::min(tiles, static_cast<size_t>(p.slots) * 4);
  auto prepare = [&](int, int64_t begin, int64_t end) {
    PrepareRows(b, PartBegin(b.m, parts, static_cast<size_t>(begin), tile_m),
                PartBegin(b.m, parts, static_cast<size_t>(end), tile_m));
  };
  QUERN_RETURN_IF_ERROR(RunRegion(p, r, static_cast<int64_t>(parts), prepare));
  if (r.counters) r.counters->lhs_packed_bytes.fetch_add(p.lhs_geometry.total_bytes, std::memory_order_relaxed);
  return OkStatus();
}

}  // namespace

EpilogueOp MovedDown(EpilogueOp op, size_t rows) {
  const auto move = [&](size_t bytes) {
    if (op.data) op.data = static_cast<const char*>(op.data) + rows * bytes;
  };
  switch (op.kind) {
    case EpilogueKind::kAddVectorM:
    case EpilogueKind::kMulVectorM:
    case EpilogueKind::kDivVectorM:
    case EpilogueKind::kAddOuter:
      move(4);
      break;
    case EpilogueKind::kAddMatrix:
    case EpilogueKind::kMulMatrix:
      move(op.row_stride);
      break;
    case EpilogueKind::kRowMinMax:
      op.out = static_cast<char*>(op.out) + rows * 8;
      break;
    case EpilogueKind::kRowSumSquares:
      op.out = static_cast<char*>(op.out) + rows * 4;
      break;
    default:
      break;
  }
  return op;
}

EpilogueOp MovedRight(EpilogueOp op, size_t columns) {
  const auto move = [&](const void*& p, size_t bytes) {
    if (p) p = static_cast<const char*>(p) + columns * bytes;
  };
  switch (op.kind) {
    case EpilogueKind::kAddVectorN:
    case EpilogueKind::kMulVectorN:
    case EpilogueKind::kPrelu:
    case EpilogueKind::kRequantize:
      move(op.data, 4);
      break;
    case EpilogueKind::kAddOuter:
    case EpilogueKind::kAddOuterScalar:
      move(op.data2, 4);
      break;
    case EpilogueKind::kAddMatrix:
    case EpilogueKind::kMulMatrix:
      move(op.data, FormatBytes(op.format));
      break;
    default:
      break;
  }
  return op;
}

Status RunGemm(const GemmPlan& p, const GemmOperands& operands, const RunResources& r) {
  if (r.workspace_bytes < p.workspace_bytes) {
    return InvalidArgument("the workspace has " + std::to_string(r.workspace_bytes) + " bytes, the plan needs " +
                           std::to_string(p.workspace_bytes));
  }
  if (p.m == 0 || p.n == 0) return OkStatus();
  for (size_t n = 0; n < p.n; n += p.n_group) {
    for (size_t m = 0; m < p.m; m += p.lhs_block) {
      EpilogueOp ops[kMaxGemmOps];
      GemmBlock b{.p = p,
                  .operands = operands,
                  .row0 = m,
                  .m = std::min(p.lhs_block, p.m - m),
                  .n0 = n,
                  .n1 = std::min(p.n, n + p.n_group),
                  .transforms = m == 0 || !p.keep_panels,
                  .ops = ops,
                  .op_count = 0,
                  .main_fused = 0,
                  .fallback_fused = 0,
                  .workspace = static_cast<char*>(r.workspace)};
      if (operands.lhs) {
        b.operands.lhs = static_cast<const char*>(operands.lhs) + static_cast<ptrdiff_t>(m) * operands.lhs_row_stride;
      }
      b.operands.dst = static_cast<char*>(operands.dst) + m * operands.dst_row_stride;
      b.op_count = DynamicOps(*p.main.row, p.layout, ops);
      BindDynamicOps(b, ops, b.op_count);
      for (size_t i = 0; i < operands.op_count; ++i) ops[b.op_count++] = MovedDown(operands.ops[i], m);
      b.main_fused = FusedLength(*p.main.row, ops, b.op_count);
      if (p.fallback.row) b.fallback_fused = FusedLength(*p.fallback.row, ops, b.op_count);
      if (p.prepared) QUERN_RETURN_IF_ERROR(Prepare(b, r));
      QUERN_RETURN_IF_ERROR(RunBlock(b, r));
    }
  }
  return OkStatus();
}

}  // namespace quern::kernels
