// The rows of integers by block-quantized weights on SME2. For kernel files only.
#pragma once

#include "ukernel/gemm/rows_blocks_sme.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/slices_sme2.h"
#endif

namespace quern::ukernel {
namespace {

template <Format kLhs, Format kRhs>
constexpr ArmI8Rows<1> MakeSmeBlocks() {
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  run = TileBlocksSme<Slices, kLhs, kRhs>::Run;
#endif
  return SmeBlocksRow(kLhs, kRhs, 0, kLhs == Format::kI8b ? 30 : 20, run);
}

}  // namespace
}  // namespace quern::ukernel
