// The rows of integers by block-quantized weights by SVE's int8 matrix instructions; dynamic rows come packed in pairs.
// For kernel files only.
#pragma once

#include <type_traits>

#include "ukernel/gemm/rows_blocks_sve.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_svei8mm.h"
#endif

namespace quern::ukernel {
namespace {

// A product of two rows takes what one of a row takes; sums of rows are taken apart at the end of a block.
template <Format kLhs, Format kRhs>
constexpr ArmI8Rows<2> MakeSveI8mmBlocks() {
  constexpr bool kPairs = kLhs == Format::kI8d;
  GemmRun run = nullptr, passes = nullptr;
#if QUERN_ISA_HERE
  using Dot = std::conditional_t<kPairs, DotSveI8mmPairs, DotSveI8mm<true>>;
  run = DispatchTileBlocksSve<Dot, kLhs, kRhs, 6>;
  passes = TileBlocksPassesSve<Dot, kLhs, kRhs, 6>::Run;
#endif
  ArmI8Rows<2> all{{SveBlockPassesRow(kLhs, kRhs, 8, kPairs ? 2 : 2.5f, passes),
                    SveBlocksRow(kLhs, kRhs, 8, 6, kPairs ? 0.63f : 0.75f, run)}};
  for (GemmKernel& row : all.rows) {
    if (kPairs) row = PairsOfRows(row);
    row.cost.m_grain = 2;
  }
  return all;
}

}  // namespace
}  // namespace quern::ukernel
