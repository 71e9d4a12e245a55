// The rows of int8 products on NEON without dot products, the same tiles for every kind of left side. For kernel files
// only.
#pragma once

#include "ukernel/gemm/epilogue_i32.h"
#include "ukernel/gemm/rows_i8_arm.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_neon.h"
#endif

namespace quern::ukernel {
namespace {

template <bool kTurn, int MR, int NU>
constexpr GemmKernel NeonRow(Format lhs) {
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  run = DispatchTileLanes<DotNeon<kTurn>, MR, NU>;
#endif
  // Four products and four additions of pairs for 8 columns of a group of 4 k, two a cycle.
  GemmKernel row = ArmI8Row(kIsa, lhs, kI8x8Dot4, MR, NU * 8,
                            {.engine = Engine::kVector,
                             .step_row = NU * (kTurn ? 4.3f : 4.1f),
                             .step_min = NU * 4.0f,
                             .row = NU * 6.0f + 4,
                             .tile = 30},
                            run);
  row.uses_sums = kTurn;
  row.fused = kFusedI32;
  return row;
}

// kTurn: the left side is unsigned, its top bit turned over, so the sums of the columns are needed.
template <bool kTurn>
constexpr ArmI8Rows<2> MakeNeonRows(Format lhs) {
  return {{NeonRow<kTurn, 4, 1>(lhs), NeonRow<kTurn, 2, 2>(lhs)}};
}

}  // namespace
}  // namespace quern::ukernel
