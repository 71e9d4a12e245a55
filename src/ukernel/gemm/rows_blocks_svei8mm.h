// The rows of integers by block-quantized weights by SVE's int8 matrix instructions; dynamic rows come packed in pairs.
// For kernel files only.
#pragma once

#include "ukernel/gemm/rows_blocks_sve.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_svei8mm.h"
#endif

namespace quern::ukernel {
namespace {

// A product of two rows takes what one of a row takes; sums of rows are taken apart at the end of a block.
template <Format kLhs, Format kRhs>
constexpr ArmI8Rows<1> MakeSveI8mmBlocks() {
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  if constexpr (kLhs == Format::kI8b) {
    run = DispatchTileBlocksSve<DotSveI8mm<true>, kLhs, kRhs, 6>;
  } else {
    run = DispatchTileBlocksSve<DotSveI8mmPairs, kLhs, kRhs, 6>;
  }
#endif
  GemmKernel row = SveBlocksRow(kLhs, kRhs, 8, 6, kLhs == Format::kI8b ? 0.75f : 0.63f, run);
  if (kLhs == Format::kI8d) row = PairsOfRows(row);
  row.cost.m_grain = 2;
  return {{row}};
}

}  // namespace
}  // namespace quern::ukernel
