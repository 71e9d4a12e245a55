// The rows of int8 products on SVE, the same tile for every kind of left side. For kernel files only.
#pragma once

#include "ukernel/gemm/rows_blocks_scaled.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_sve.h"
#endif

namespace quern::ukernel {
namespace {

// kTurn: the left side is unsigned, its top bit turned over, so the sums of the columns are needed. Costs are per lane
// of two columns: two dot products of 128 bits a cycle.
template <bool kTurn>
constexpr ArmI8Rows<1> MakeSveRows(Format lhs) {
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  run = DispatchTileSve<DotSve<kTurn>, 8>;
#endif
  GemmKernel row = ArmI8Row(
      kIsa, lhs, kI8SveDot4, 8, 2,
      {.engine = Engine::kVector, .step_row = kTurn ? 0.27f : 0.255f, .step_min = 0.25f, .row = 8, .tile = 30}, run);
  row.nr_scale = VectorScale::kSve;
  row.uses_sums = kTurn;
  return {{row}};
}

// Four bits of dynamic rows' weights: two instructions for each vector of them.
constexpr ArmI8Rows<1> MakeSveFours() {
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  run = DispatchTileSve<DotSve<false>, 8, SveFours<4>>;
#endif
  GemmKernel row = ArmI8Row(kIsa, Format::kI8d, U4Channels(VectorScale::kSve, 2, 4), 8, 2,
                            {.engine = Engine::kVector, .step_row = 1.27f, .step_min = 3, .row = 8, .tile = 30}, run);
  row.nr_scale = VectorScale::kSve;
  return {{FourBitChannels(row)}};
}

}  // namespace
}  // namespace quern::ukernel
