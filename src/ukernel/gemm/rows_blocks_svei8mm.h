// The rows of integers by block-quantized weights by SVE's int8 matrix instructions. Rows come packed in pairs. For
// kernel files only.
#pragma once

#include "ukernel/gemm/rows_blocks_sve.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_svei8mm.h"
#endif

namespace quern::ukernel {
namespace {

// A product of two rows takes what one of a row takes; sums of rows are taken apart at the end of a block.
template <Format kLhs, Format kRhs>
constexpr ArmI8Rows<2> MakeSveI8mmBlocks() {
  GemmRun run = nullptr, passes = nullptr;
#if QUERN_ISA_HERE
  run = DispatchTileBlocksSve<DotSveI8mmPairs, kLhs, kRhs, 6>;
  passes = TileBlocksPassesSve<DotSveI8mmPairs, kLhs, kRhs, 6>::Run;
#endif
  ArmI8Rows<2> all{{SveBlockPassesRow(kLhs, kRhs, 8, 2, passes), SveBlocksRow(kLhs, kRhs, 8, 6, 0.63f, run)}};
  for (GemmKernel& row : all.rows) {
    row = PairsOfRows(row);
    row.cost.m_grain = 2;
  }
  return all;
}

}  // namespace
}  // namespace quern::ukernel
