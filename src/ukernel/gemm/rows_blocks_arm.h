// Descriptors of the rows of block-quantized weights on Arm, alike for every instruction set. For kernel files only.
#pragma once

#include "ukernel/gemm/epilogue_f32.h"
#include "ukernel/layouts_arm.h"

namespace quern::ukernel {
namespace {

// rhs: kU4 or kI8 blocks. Groups of 8 k go with pairs of rows.
constexpr GemmKernel ArmBlocksRow(const Isa& isa, Format rhs, uint16_t k_interleave, uint16_t mr, uint16_t nr,
                                  GemmCost cost, GemmRun run) {
  GemmKernel row{.isa = isa,
                 .lhs = Format::kI8d,
                 .lhs_source = Format::kF32,
                 .rhs = rhs,
                 .dst = Format::kF32,
                 .precision = Precision::kFp32,
                 .mr = mr,
                 .nr = nr,
                 .kr = 16,
                 .lhs_forms = k_interleave == 8 ? kLhsPacked : kLhsRows,
                 .lhs_layout = k_interleave == 8 ? kI8dPairs : kI8dRows,
                 .consumed = ArmBlocks(rhs, k_interleave, Format::kF32),
                 .block_divisor = 16,
                 .fused = kFusedProductF32,
                 .cost = cost,
                 .run = run};
  // The order is that of preference, memory being equal.
  size_t i = 0;
  for (Format offset : {Format::kNone, Format::kU8, Format::kF32}) {
    for (Format scale : {Format::kBf16, Format::kF16, Format::kF32}) {
      if (rhs == Format::kI8 && offset != Format::kNone) continue;
      row.layouts[i++] = ArmBlocks(rhs, k_interleave, scale, offset);
    }
  }
  return row;
}

}  // namespace
}  // namespace quern::ukernel
