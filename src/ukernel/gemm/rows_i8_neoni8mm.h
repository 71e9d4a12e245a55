// The rows of int8 products by Arm's int8 matrix instructions, the same tiles for every kind of left side. For kernel
// files only.
#pragma once

#include "ukernel/gemm/epilogue_i32.h"
#include "ukernel/gemm/rows_i8_arm.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_neoni8mm.h"
#endif

namespace quern::ukernel {
namespace {

template <bool kSignedLhs, int MR, int NU>
constexpr GemmKernel NeonI8mmRow(Format lhs) {
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  run = DispatchTileLanes<DotNeonI8mm<kSignedLhs>, MR, NU>;
#endif
  // For two rows, 8 columns and 8 k: four products and a half transpose, two a cycle; four loads of weights.
  GemmKernel row = ArmI8Row(kIsa, lhs, kI8x8Dot8, MR, NU * 8,
                            {.engine = Engine::kVector,
                             .step_row = NU + 0.25f,
                             .step_min = NU * 2.0f + MR / 4.0f,
                             .row = NU * 3.5f + 2,
                             .tile = 24,
                             .m_grain = 2},
                            run);
  row.fused = kFusedI32;
  return row;
}

template <bool kSignedLhs>
constexpr ArmI8Rows<2> MakeNeonI8mmRows(Format lhs) {
  return {{NeonI8mmRow<kSignedLhs, 8, 1>(lhs), NeonI8mmRow<kSignedLhs, 4, 2>(lhs)}};
}

}  // namespace
}  // namespace quern::ukernel
