// The rows of int8 rows by block-quantized weights by Arm's dot products. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/rows_blocks_arm.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_neondot.h"
#include "ukernel/gemm/tile_blocks_lanes.h"
#endif

namespace quern::ukernel {
namespace {

template <Format kLhs, Format kRhs, int MR, int NU>
constexpr GemmKernel NeonDotBlocksRow() {
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  run = DispatchTileBlocksLanes<DotNeonDot<false>, kLhs, kRhs, MR, NU>;
#endif
  return ArmBlocksRow(kIsa, kLhs, kRhs, 4, MR, NU * 8, ArmBlocksCost(kLhs, kRhs, MR, NU, 4, 2), run);
}

template <Format kLhs, Format kRhs>
constexpr ArmBlocksRows<2> MakeNeonDotBlocks() {
  return {{NeonDotBlocksRow<kLhs, kRhs, 4, 1>(), NeonDotBlocksRow<kLhs, kRhs, 2, 2>()}};
}

}  // namespace
}  // namespace quern::ukernel
