// Descriptors of AVX-512's multiply-add tiles, of float32 and float64. For kernel files only.
#pragma once

#include "ukernel/gemm/tile_fma.h"

namespace quern::ukernel {
namespace {

// A tile of mr rows by units of one vector. Two multiply-adds a cycle, and a quarter of a cycle per broadcast element
// of the left side (measured in float32: 8x48 takes 14 cycles per k, 6x64 13.5, 8x16 6; with one 512-bit unit, 25.5 and
// 25.6 for the first two; 16x16 9.4 to 10, as each pointer of a row serves four k); a unit's line of 64 bytes comes out
// of L2 in about 1.5 cycles, which bounds few rows.
constexpr GemmKernel Avx512Tile(const PackLayout& layout, uint16_t mr, uint16_t units, GemmRun run) {
  const auto nr = static_cast<uint16_t>(units * layout.n_unit);
  const float vectors = units;
  GemmKernel row = TileF32Row(layout, mr, nr,
                              {.engine = Engine::kVector512,
                               .step_row = vectors / 2,
                               .step_load = mr > 8 ? 0.15f : 0.25f,
                               .step_min = vectors * 1.5f,
                               .row = vectors * 2 + 2,
                               .tile = 30},
                              run);
  row.rhs_in_place = true;
  if (units > 1) row.asks_ahead = AsksAhead::kBlock;
  return row;
}

}  // namespace
}  // namespace quern::ukernel
