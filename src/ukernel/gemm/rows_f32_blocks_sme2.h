// The row of float32 products on SME2 by block-quantized weights: outer products leave no time to make float32 of them
// in streaming mode, so that a block transform does, once for all rows. For kernel files only.
#pragma once

#include "ukernel/gemm/rows_blocks_scaled.h"
#include "ukernel/gemm/tile_sme.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/loads_sme2.h"
#endif

namespace quern::ukernel {
namespace {

constexpr ArmI8Rows<1> MakeSmeF32Blocks(Format rhs) {
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  run = TileSme<Loads, float>::Run;
#endif
  GemmKernel row = SmeRow(Format::kF32, kF32SmePanels, kF32Sme, 0.0f, run);
  row.rhs = rhs;
  row.block_divisor = 16;
  SetBlockLayouts(row, VectorScale::kSme, rhs, 4);
  return {{row}};
}

}  // namespace
}  // namespace quern::ukernel
