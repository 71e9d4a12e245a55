// The rows of int8 products by 256-bit byte dot products, the same tiles for every kind of left side. For kernel files
// only, after the header of their ISA's DotVnni256.
#pragma once

#include "ukernel/gemm/tile_i8.h"

namespace quern::ukernel {
namespace {

// kSigned: the left side is. uses_sums: the instruction's is not.
template <bool kSigned>
constexpr GemmKernel Vnni256Row(Format lhs, bool uses_sums) {
  GemmRun run = nullptr;
#if QUERN_ISA_HERE
  run = DispatchTileI8<DotVnni256<kSigned>, 6, 16, 1>;
#endif
  // Two instructions a cycle, two for a unit and row; a unit's line of 64 bytes comes out of L2 in about 1.5 cycles.
  return TileI8Row(kIsa, lhs, 6, 256, uses_sums, 4,
                   {.engine = Engine::kVector, .step_row = 16.05f, .step_min = 24, .row = 112, .tile = 110}, run);
}

}  // namespace
}  // namespace quern::ukernel
