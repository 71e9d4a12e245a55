// Descriptors of the rows of integers by block-quantized weights in units of SVE and SME. For kernel files only.
#pragma once

#include "ukernel/gemm/rows_i8_arm.h"

namespace quern::ukernel {
namespace {

// The resident layouts of blocks, in the order of preference, memory being equal.
constexpr void SetBlockLayouts(GemmKernel& row, VectorScale n_scale, Format element, uint16_t k_interleave) {
  size_t i = 0;
  for (Format offset : {Format::kNone, Format::kU8, Format::kF32}) {
    for (Format scale : {Format::kBf16, Format::kF16, Format::kF32}) {
      if (element == Format::kI8 && offset != Format::kNone) continue;
      row.layouts[i++] = ScaledBlocks(n_scale, element, k_interleave, scale, offset);
    }
  }
}

// lhs: kI8d or kI8b; rhs: kU2, kU4, kU8 or kI8 blocks. Tile, left side's form and cost are the caller's.
constexpr GemmKernel ScaledBlocksRow(const Isa& isa, Format lhs, Format rhs, VectorScale n_scale,
                                     uint16_t k_interleave) {
  GemmKernel row{.isa = isa,
                 .lhs = lhs,
                 .lhs_source = Format::kF32,
                 .rhs = rhs,
                 .dst = Format::kF32,
                 .precision = Precision::kFp32,
                 .nr = 2,
                 .kr = 16,
                 .nr_scale = n_scale,
                 .consumed = ScaledBlocks(n_scale, rhs, k_interleave, Format::kF32),
                 .block_divisor = static_cast<uint16_t>(lhs == Format::kI8b ? 32 : 16)};
  SetBlockLayouts(row, n_scale, rhs, k_interleave);
  // Blocks are whole bytes of storage.
  if (RhsGroup(row.consumed) > row.block_divisor) row.block_divisor = static_cast<uint16_t>(RhsGroup(row.consumed));
  return row;
}

// Of a row of dynamic rows by int8 ones, in that layout of 4-bit weights with a scale per channel.
constexpr GemmKernel FourBitChannels(GemmKernel row) {
  row.rhs = Format::kI4;
  row.kr = 16;
  row.layouts[0] = row.consumed;
  row.layouts[1] = {};
  return row;
}

}  // namespace
}  // namespace quern::ukernel
