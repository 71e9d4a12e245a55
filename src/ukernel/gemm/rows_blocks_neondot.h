// The rows of int8 rows by block-quantized weights by Arm's dot products. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/rows_blocks_arm.h"
#include "ukernel/gemm/rows_blocks_scaled.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_neondot.h"
#include "ukernel/gemm/tile_blocks_lanes.h"
#include "ukernel/gemm/tile_blocks_passes.h"
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
constexpr GemmKernel NeonDotBlockPasses() {
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  run = TileBlocksPasses<DotNeonDot<false>, kLhs, kRhs, kPassRows>::Run;
#endif
  return ArmBlockPassesRow(kIsa, kLhs, kRhs, 4, ArmBlockPassesCost(kLhs, kRhs, 4), run);
}

// Few rows by weights that are resident for SME, whose vector length gives the unit.
template <Format kLhs, Format kRhs>
constexpr GemmKernel NeonDotBlocksSmeUnit() {
  GemmKernel row = NeonDotBlocksRow<kLhs, kRhs, 4, 1>();
  row.isa = {kIsa.name, kIsa.needs.With(CpuFeature::kSme), kIsa.any_arch, kIsa.arch, kIsa.emulated};
  row.nr = 2;
  row.nr_scale = VectorScale::kSme;
  if (kRhs == Format::kI4) {
    row.layouts[0] = row.consumed = U4Channels(VectorScale::kSme, 2, 4);
  } else {
    SetBlockLayouts(row, VectorScale::kSme, kRhs, 4);
    row.consumed = ScaledBlocks(VectorScale::kSme, kRhs, 4, Format::kF32);
  }
  row.cost.step_row /= 4;  // per lane: two columns of the unit
  row.cost.step_min /= 4;
  row.cost.row *= 4;  // that of each 8 columns, at 512 bits
  row.cost.tile *= 4;
#if QUERN_ISA_HERE
  row.run = RunScaledBlocks<DotNeonDot<false>, kLhs, kRhs>;
#endif
  return row;
}

template <Format kLhs, Format kRhs>
constexpr ArmBlocksRows<3> MakeNeonDotBlocks() {
  return {{NeonDotBlockPasses<kLhs, kRhs>(), NeonDotBlocksRow<kLhs, kRhs, 2, 2>(), NeonDotBlocksSmeUnit<kLhs, kRhs>()}};
}

}  // namespace
}  // namespace quern::ukernel
