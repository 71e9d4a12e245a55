// The rows of int8 products by Arm's int8 matrix instructions, the same tiles for every kind of left side; dynamic
// rows come packed in pairs. For kernel
// files only.
#pragma once

#include "ukernel/gemm/epilogue_i32.h"
#include "ukernel/gemm/rows_i8_arm.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_neoni8mm.h"
#endif

namespace quern::ukernel {
namespace {

// For two rows, 8 columns and 8 k: four products, two a cycle; four loads of weights. `transpose` is what rows cost
// that are not packed in pairs.
constexpr GemmKernel NeonI8mmRow(Format lhs, int mr, int units, float transpose, GemmRun run) {
  const float nu = static_cast<float>(units);
  GemmKernel row = ArmI8Row(kIsa, lhs, kI8x8Dot8, static_cast<uint16_t>(mr), static_cast<uint16_t>(units * 8),
                            {.engine = Engine::kVector,
                             .step_row = nu + transpose,
                             .step_min = nu * 2 + static_cast<float>(mr) / 4,
                             .row = nu * 3.5f + 2,
                             .tile = 24,
                             .m_grain = 2},
                            run);
  row.fused = kFusedI32;
  return row;
}

template <bool kSignedLhs>
constexpr ArmI8Rows<2> MakeNeonI8mmRows(Format lhs) {
  GemmRun run8x8 = nullptr, run4x16 = nullptr;
#if QUERN_ISA_HERE
  run8x8 = DispatchTileLanes<DotNeonI8mm<kSignedLhs>, 8, 1>;
  run4x16 = DispatchTileLanes<DotNeonI8mm<kSignedLhs>, 4, 2>;
#endif
  return {{NeonI8mmRow(lhs, 8, 1, 0.25f, run8x8), NeonI8mmRow(lhs, 4, 2, 0.25f, run4x16)}};
}

constexpr ArmI8Rows<2> MakeNeonI8mmPairs() {
  GemmRun run8x8 = nullptr, run4x16 = nullptr;
#if QUERN_ISA_HERE
  run8x8 = DispatchTileLanes<DotNeonI8mmPairs, 8, 1>;
  run4x16 = DispatchTileLanes<DotNeonI8mmPairs, 4, 2>;
#endif
  return {{PairsOfRows(NeonI8mmRow(Format::kI8d, 8, 1, 0.03f, run8x8)),
           PairsOfRows(NeonI8mmRow(Format::kI8d, 4, 2, 0.03f, run4x16))}};
}

}  // namespace
}  // namespace quern::ukernel
