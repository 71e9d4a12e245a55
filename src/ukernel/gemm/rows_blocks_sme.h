// The rows of integers by block-quantized weights on SME and SME2. For kernel files only.
#pragma once

#include "ukernel/gemm/rows_blocks_scaled.h"
#include "ukernel/gemm/tile_sme.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/tile_blocks_sme.h"
#endif

namespace quern::ukernel {
namespace {

// For 16 k of a vector of rows and a unit: 8 outer products, one a cycle; loads, the weights' bytes and half of what
// 32 k take at their end (`end`), one in three cycles: units are made for outer products, and some take four. `excess`:
// outer products that take off what weights with zero points have too much.
constexpr ArmI8Rows<1> SmeBlocksRow(Format lhs, Format rhs, float excess, float end, GemmRun run) {
  GemmKernel row = ScaledBlocksRow(kIsa, lhs, rhs, VectorScale::kSme, 4);
  const float bytes = rhs == Format::kI8 ? 0 : rhs == Format::kU8 ? 4 : 7;
  row.mr = 2;
  row.mr_scale = VectorScale::kSme;
  row.whole_panel = true;
  row.lhs_forms = kLhsPacked;
  row.lhs_layout = I8SmeBlockPanels(lhs);
  row.fused = kFusedSve;
  row.cost = {
      .engine = Engine::kMatrix, .step_row = 8 + excess + 3 * (8 + bytes + end), .row = 8, .tile = 60, .call = 800};
  row.run = run;
  return {{row}};
}

}  // namespace
}  // namespace quern::ukernel
