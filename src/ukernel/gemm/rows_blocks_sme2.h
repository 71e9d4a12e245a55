// The rows of integers by block-quantized weights on SME2. For kernel files only.
#pragma once

#include "ukernel/gemm/rows_blocks_scaled.h"
#include "ukernel/gemm/tile_sme.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/tile_blocks_sme.h"
#endif

namespace quern::ukernel {
namespace {

// For 16 k of a vector of rows and a unit: 8 outer products, one a cycle; loads, sums of rows, the weights' bytes and
// half of what 32 k take at their end, one in three cycles: units are made for outer products, and some take four.
template <Format kLhs, Format kRhs>
constexpr ArmI8Rows<1> MakeSmeBlocks() {
  GemmKernel row = ScaledBlocksRow(kIsa, kLhs, kRhs, VectorScale::kSme, 4);
  const float bytes = kRhs == Format::kI8 ? 0 : kRhs == Format::kU8 ? 8 : kRhs == Format::kU4 ? 8 : 14;
  row.mr = 2;
  row.mr_scale = VectorScale::kSme;
  row.whole_panel = true;
  row.lhs_forms = kLhsPacked;
  row.lhs_layout = I8SmeBlockPanels(kLhs);
  row.fused = kFusedSve;
  row.cost = {.engine = Engine::kMatrix,
              .step_row = 8 + 3 * ((kRhs == Format::kI8 ? 6 : 10) + bytes + (kLhs == Format::kI8b ? 48 : 30)),
              .row = 8,
              .tile = 60,
              .call = 800};
#if QUERN_ISA_HERE
  row.run = TileBlocksSme<kLhs, kRhs>::Run;
#endif
  return {{row}};
}

}  // namespace
}  // namespace quern::ukernel
