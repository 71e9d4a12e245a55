// The rows of integers by block-quantized weights on SVE. For kernel files only.
#pragma once

#if QUERN_ISA_HERE
#include <arm_sve.h>
#endif

#include "ukernel/gemm/rows_blocks_passes.h"
#include "ukernel/gemm/rows_blocks_scaled.h"

#define QUERN_SVE_MODE
#include "ukernel/gemm/epilogue_sve.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_sve.h"
#include "ukernel/gemm/tile_blocks_passes_sve.h"
#endif

namespace quern::ukernel {
namespace {

// Two instructions a cycle, per lane of two columns: for 16 k the products of a row (`products`), half of what a block
// of 32 takes at its end, and a row's share of what its weights take to be bytes.
constexpr GemmKernel SveBlocksRow(Format lhs, Format rhs, uint16_t k_interleave, uint16_t mr, float products,
                                  GemmRun run) {
  GemmKernel row = ScaledBlocksRow(kIsa, lhs, rhs, VectorScale::kSve, k_interleave);
  const float end = lhs == Format::kI8b ? 1.0f : 0.75f;
  const float bytes = rhs == Format::kI8 ? 0.0f : rhs == Format::kU8 ? 1.0f : rhs == Format::kU4 ? 2.5f : 3.0f;
  row.mr = mr;
  row.lhs_layout = lhs == Format::kI8b ? kI8bRows : kI8dRows;
  row.fused = kFusedSve;
  row.cost = {.engine = Engine::kVector,
              .step_row = products + end + bytes / mr,
              .step_min = products + end + bytes,
              .row = 3,
              .tile = 30};
  row.run = run;
  return row;
}

// The tile of many rows; `products` as for 8 columns.
constexpr GemmKernel SveBlockPassesRow(Format lhs, Format rhs, uint16_t k_interleave, float products, GemmRun run) {
  GemmKernel row = SveBlocksRow(lhs, rhs, k_interleave, kPassRows, 0, run);
  row.cost = ArmBlockPassesCost(lhs, rhs, products);
  row.cost.step_row /= 4;  // per lane
  row.cost.step_min /= 4;
  row.scratch_bytes = 2 * kPassRows * 2 * 256;  // two vectors of a row, 2048 bits at most
  return row;
}

template <Format kLhs, Format kRhs>
constexpr ArmI8Rows<2> MakeSveBlocks() {
  GemmRun run = nullptr, passes = nullptr;
#if QUERN_ISA_HERE
  run = DispatchTileBlocksSve<DotSve<false>, kLhs, kRhs, 8>;
  passes = TileBlocksPassesSve<DotSve<false>, kLhs, kRhs, 8>::Run;
#endif
  return {{SveBlockPassesRow(kLhs, kRhs, 4, 4, passes), SveBlocksRow(kLhs, kRhs, 4, 8, 1.0f, run)}};
}

}  // namespace
}  // namespace quern::ukernel
