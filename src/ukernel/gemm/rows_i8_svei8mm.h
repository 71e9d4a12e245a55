// The rows of int8 products by SVE's int8 matrix instructions, the same tile for every kind of left side; dynamic
// rows come packed in pairs. For kernel files only.
#pragma once

#include "ukernel/gemm/rows_blocks_scaled.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_svei8mm.h"
#endif

namespace quern::ukernel {
namespace {

// Costs are per lane of two columns: two products of 128 bits a cycle.
constexpr GemmKernel SveI8mmRow(Format lhs, float step_row, GemmRun run) {
  GemmKernel row = ArmI8Row(
      kIsa, lhs, kI8SveDot8, 8, 2,
      {.engine = Engine::kVector, .step_row = step_row, .step_min = 0.5f, .row = 9, .tile = 30, .m_grain = 2}, run);
  row.nr_scale = VectorScale::kSve;
  return row;
}

template <bool kSignedLhs>
constexpr ArmI8Rows<1> MakeSveI8mmRows(Format lhs) {
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  run = DispatchTileSve<DotSveI8mm<kSignedLhs>, 8>;
#endif
  return {{SveI8mmRow(lhs, 0.31f, run)}};
}

// Four bits of dynamic rows' weights: two instructions for each vector of them.
constexpr ArmI8Rows<1> MakeSveI8mmFours() {
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  run = DispatchTileSve<DotSveI8mmPairs, 8, SveFours<8>>;
#endif
  GemmKernel row = PairsOfRows(
      ArmI8Row(kIsa, Format::kI8d, U4Channels(VectorScale::kSve, 2, 8), 8, 2,
               {.engine = Engine::kVector, .step_row = 0.77f, .step_min = 3, .row = 9, .tile = 30, .m_grain = 2}, run));
  row.nr_scale = VectorScale::kSve;
  return {{FourBitChannels(row)}};
}

constexpr ArmI8Rows<1> MakeSveI8mmPairs() {
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  run = DispatchTileSve<DotSveI8mmPairs, 8>;
#endif
  return {{PairsOfRows(SveI8mmRow(Format::kI8d, 0.255f, run))}};
}

}  // namespace
}  // namespace quern::ukernel
