// Descriptors of the rows of 16-bit weights by conversion on AVX2 and AVX-512, alike for every left side. For kernel
// files only.
#pragma once

#include "ukernel/gemm/tile_fma.h"
#include "ukernel/gemm/tile_half.h"

namespace quern::ukernel {
namespace {

// Two multiply-adds a cycle as float32's tiles, whose costs these are.
[[maybe_unused]] constexpr GemmKernel WidenedAvx2(Format lhs, Format rhs, GemmRun run) {
  const GemmCost cost{
      .engine = Engine::kVector, .step_row = 1, .step_load = 0.15f, .step_min = 1.4f, .row = 6, .tile = 30, .read = 26};
  return WidenedRow(lhs, rhs, 6, 16, cost, run);
}
[[maybe_unused]] constexpr GemmKernel WidenedAvx512(Format lhs, Format rhs, GemmRun run) {
  const GemmCost cost{
      .engine = Engine::kVector512, .step_row = 1.5f, .step_load = 0.25f, .step_min = 4.5f, .row = 8, .tile = 30};
  return WithNarrow(WidenedRow(lhs, rhs, 8, 48, cost, run));
}

// The conversion of half a vector of f16 pairs takes a slot of the multiply-adds' ports and one of the shuffles';
// staging of 16-bit rows 0.1 cycles per element.
[[maybe_unused]] constexpr GemmKernel F16PairsAvx2(Format lhs, uint16_t mr, uint16_t nr, GemmRun run) {
  const float vectors = nr / 8.0f;
  return TileHalfRow(lhs, Format::kF16, mr, nr,
                     {.engine = Engine::kVector,
                      .step_row = vectors + 2 * vectors / mr,
                      .step_load = lhs == Format::kF32 ? 0.3f : 0.5f,
                      .step_min = vectors * 2.3f,
                      .row = vectors * 3 + 2,
                      .tile = 40,
                      .read = 26},
                     run);
}
[[maybe_unused]] constexpr GemmKernel F16PairsAvx512(Format lhs, uint16_t mr, uint16_t nr, GemmRun run) {
  const float vectors = nr / 16.0f;
  return TileHalfRow(lhs, Format::kF16, mr, nr,
                     {.engine = Engine::kVector512,
                      .step_row = vectors + 2 * vectors / mr,
                      .step_load = lhs == Format::kF32 ? 0.3f : 0.5f,
                      .step_min = vectors * 2,
                      .row = vectors * 3 + 2,
                      .tile = 40},
                     run);
}

}  // namespace
}  // namespace quern::ukernel
