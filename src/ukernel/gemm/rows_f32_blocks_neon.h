// The rows of float32 rows by block-quantized weights on NEON: weights become float32 in registers for few rows, by a
// block transform for many. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_f32_blocks.h"
#include "ukernel/layouts_arm.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_i32_neon.h"
#endif

namespace quern::ukernel {
namespace {

struct NeonF32Blocks {
  GemmKernel rows[2];
};

constexpr GemmKernel NeonF32BlocksRow(Format rhs, uint16_t mr, uint16_t nr, bool expanded, GemmCost cost, GemmRun run) {
  GemmKernel row = F32BlocksRow(rhs, mr, nr, expanded, cost, run);
  for (PackLayout& l : row.layouts) {
    if (l.element != Format::kNone) l = ArmBlocks(rhs, 4, l.scale, l.offset);
  }
  row.consumed = expanded ? kF32x8 : row.layouts[0];
  return row;
}

template <Format kRhs>
constexpr NeonF32Blocks MakeNeonF32Blocks() {
  GemmRun few = nullptr, many = nullptr;
#if QUERN_ISA_HERE
  few = DispatchTileF32Blocks<IntVector, kRhs, 4, 1>;
  many = DispatchTileFma<IntVector, 6, 2>;
#endif
  // Two instructions a cycle. For each k and row two multiply-adds; for each k three instructions to unpack either of
  // two vectors, and in each line shifts and masks.
  constexpr float kPerLine = 32.0f / FormatBits(kRhs);
  constexpr float kUnpack = kPerLine * 3 + (kRhs == Format::kU8   ? 0
                                            : kRhs == Format::kI8 ? 1
                                            : kRhs == Format::kU4 ? 2
                                                                  : 6);
  return {{NeonF32BlocksRow(kRhs, 4, 8, false,
                            {.engine = Engine::kVector,
                             .step_row = kPerLine + kUnpack / 4,
                             .step_min = kPerLine + kUnpack,
                             .row = 8,
                             .tile = 40},
                            few),
           NeonF32BlocksRow(kRhs, 6, 16, true,
                            {.engine = Engine::kVector, .step_row = 2, .step_min = 2, .row = 8, .tile = 30}, many)}};
}

}  // namespace
}  // namespace quern::ukernel
