// The rows of int8 products by Arm's dot product instructions, the same tiles for every kind of left side. For kernel
// files only.
#pragma once

#include "ukernel/gemm/epilogue_i32.h"
#include "ukernel/gemm/rows_i8_arm.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_neondot.h"
#endif

namespace quern::ukernel {
namespace {

template <bool kTurn, int MR, int NU>
constexpr GemmKernel NeonDotRow(Format lhs) {
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  run = DispatchTileLanes<DotNeonDot<kTurn>, MR, NU>;
#endif
  // Two dot products a cycle, a quarter of a load or less for each; two loads a cycle.
  GemmKernel row = ArmI8Row(kIsa, lhs, kI8x8Dot4, MR, NU * 8,
                            {.engine = Engine::kVector,
                             .step_row = NU + (kTurn ? 0.16f : 0.03f),
                             .step_min = NU + MR / 8.0f,
                             .row = NU * 3.0f + 2,
                             .tile = 24},
                            run);
  row.uses_sums = kTurn;
  row.fused = kFusedI32;
  return row;
}

// Few rows by weights that are resident for SME, whose vector length gives the unit.
template <bool kTurn>
constexpr GemmKernel NeonDotSmeUnit(Format lhs) {
  GemmKernel row = NeonDotRow<kTurn, 4, 2>(lhs);
  row.isa = {kIsa.name, kIsa.needs.With(CpuFeature::kSme), kIsa.any_arch, kIsa.arch, kIsa.emulated};
  row.nr = 2;
  row.nr_scale = VectorScale::kSme;
  row.consumed = row.layouts[0] = kI8Sme;
  row.layouts[1] = WithChannelScales(kI8Sme);
  row.layouts[2] = {};
  row.cost.step_row = 0.25f;  // per lane: two columns of the unit
  row.cost.step_min = 0.3f;
  row.cost.row = 16;
#if QUERN_ISA_HERE
  using D = DotNeonDot<kTurn>;
  row.run = RunScaledUnit<D, 2, Format::kI32, DispatchTileLanes<D, 4, 2, Columns::kScaledUnit>>;
#endif
  return row;
}

// kTurn: the left side is unsigned, its top bit turned over, so the sums of the columns are needed.
template <bool kTurn>
constexpr ArmI8Rows<3> MakeNeonDotRows(Format lhs) {
  return {{NeonDotRow<kTurn, 8, 1>(lhs), NeonDotRow<kTurn, 4, 2>(lhs), NeonDotSmeUnit<kTurn>(lhs)}};
}

}  // namespace
}  // namespace quern::ukernel
