// The rows of int8 rows by block-quantized weights by Arm's int8 matrix instructions. For kernel files of that ISA
// only.
#pragma once

#include <type_traits>

#include "ukernel/gemm/rows_blocks_arm.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_neoni8mm.h"
#include "ukernel/gemm/tile_blocks_lanes.h"
#include "ukernel/gemm/tile_blocks_passes.h"
#endif

namespace quern::ukernel {
namespace {

// Dynamic rows come in pairs; rows in blocks are paired when they are loaded, which is half a cycle each.
template <Format kLhs, Format kRhs, int MR, int NU>
constexpr GemmKernel NeonI8mmBlocksRow() {
  constexpr bool kPairs = kLhs == Format::kI8d;
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  using Dot = std::conditional_t<kPairs, DotNeonI8mmPairs, DotNeonI8mm<true>>;
  run = DispatchTileBlocksLanes<Dot, kLhs, kRhs, MR, NU>;
#endif
  GemmCost cost = ArmBlocksCost(kLhs, kRhs, MR, NU, 2, 2.25f);
  cost.step_load = kPairs ? 0 : 0.5f;
  cost.m_grain = 2;
  return ArmBlocksRow(kIsa, kLhs, kRhs, 8, MR, NU * 8, cost, run);
}

template <Format kLhs, Format kRhs>
constexpr GemmKernel NeonI8mmBlockPasses() {
  constexpr bool kPairs = kLhs == Format::kI8d;
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  using Dot = std::conditional_t<kPairs, DotNeonI8mmPairs, DotNeonI8mm<true>>;
  run = TileBlocksPasses<Dot, kLhs, kRhs, kPassRows>::Run;
#endif
  GemmCost cost = ArmBlockPassesCost(kLhs, kRhs, 2);
  cost.step_load = kPairs ? 0 : 0.5f;
  cost.m_grain = 2;
  return ArmBlockPassesRow(kIsa, kLhs, kRhs, 8, cost, run);
}

template <Format kLhs, Format kRhs>
constexpr ArmBlocksRows<2> MakeNeonI8mmBlocks() {
  return {{NeonI8mmBlockPasses<kLhs, kRhs>(), NeonI8mmBlocksRow<kLhs, kRhs, 2, 2>()}};
}

}  // namespace
}  // namespace quern::ukernel
