// Descriptors of the int8 rows on Arm, alike for every instruction set. For kernel files only.
#pragma once

#include "ukernel/gemm.h"
#include "ukernel/layouts_arm.h"

namespace quern::ukernel {
namespace {

// But for fused operations, tile and cost: dynamic rows come prepared, others are read where they are.
constexpr GemmKernel ArmI8Row(const Isa& isa, Format lhs, const PackLayout& layout, uint16_t mr, uint16_t nr,
                              GemmCost cost, GemmRun run) {
  GemmKernel row{.isa = isa,
                 .lhs = lhs,
                 .rhs = Format::kI8,
                 .dst = Format::kI32,
                 .precision = Precision::kExact,
                 .mr = mr,
                 .nr = nr,
                 .kr = layout.k_interleave,
                 .lhs_forms = kLhsRows | kLhsTaps | kLhsRowPointers,
                 .consumed = layout,
                 .layouts = {layout, WithChannelScales(layout)},
                 .cost = cost,
                 .run = run};
  if (lhs == Format::kI8d) {
    row.lhs_source = Format::kF32;
    row.lhs_forms = kLhsRows;
    row.lhs_layout = kI8dRows;
    if (layout.n_scale == VectorScale::kFixed)
      row.layouts[2] = U4Channels(VectorScale::kFixed, 8, layout.k_interleave);  // expanded
  }
  return row;
}

// The row of pairs of dynamic rows.
constexpr GemmKernel PairsOfRows(GemmKernel row) {
  row.lhs_forms = kLhsPacked;
  row.lhs_layout = row.lhs == Format::kI8b ? kI8bPairs : kI8dPairs;
  return row;
}

template <size_t kCount>
struct ArmI8Rows {
  GemmKernel rows[kCount];
};

}  // namespace
}  // namespace quern::ukernel
