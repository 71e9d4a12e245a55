// Descriptors of AVX2's multiply-add tiles, of float32 and float64. For kernel files only.
#pragma once

#include "ukernel/gemm/tile_fma.h"

namespace quern::ukernel {
namespace {

// A tile of mr rows by units of two vectors. Measured in float32: 6x16 takes 6.9 cycles per k; 2x32, whose eight sums
// hardly cover the latency, 5. One row by weights in L2 (525 KB) takes them at 26 bytes per cycle, AVX-512 at 32 and
// more.
constexpr GemmKernel Avx2Tile(const PackLayout& layout, uint16_t mr, uint16_t units, float step_load, GemmRun run) {
  const auto nr = static_cast<uint16_t>(units * layout.n_unit);
  const float vectors = 2.0f * units;
  GemmKernel row = TileF32Row(layout, mr, nr,
                              {.engine = Engine::kVector,
                               .step_row = vectors / 2,
                               .step_load = step_load,
                               .step_min = vectors * 0.7f,
                               .row = vectors * 2 + 2,
                               .tile = 30,
                               .read = 26},
                              run);
  if (mr > 2) row.asks_ahead = AsksAhead::kPanel;
  return row;
}

}  // namespace
}  // namespace quern::ukernel
