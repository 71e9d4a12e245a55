// Rows by VFMADDPH, of float16 or of float32 made so. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_half.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/half_avx512.h"
#include "ukernel/gemm/half_pairs_avx512.h"
#include "ukernel/vector_fp16.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct WeightsPairs : HalfPairs {
  static constexpr size_t kMostK = 32;
  static constexpr int kParts = 1, kFold = 1, kAsks = 1;
  static constexpr bool kHolds = true;
  using Acc = __m512i;
  static __m512i ZeroAcc() { return _mm512_setzero_si512(); }
  static __m512i AddAcc(__m512i a, __m512i b) { return FmaHalf(a, _mm512_set1_epi16(0x3c00), b); }
  static __m512 Fold(const __m512i* dots) {
    const __m512 wide[2] = {_mm512_cvtph_ps(_mm512_castsi512_si256(*dots)),
                            _mm512_cvtph_ps(_mm512_extracti64x4_epi64(*dots, 1))};
    return WeightsF16::Fold(wide);
  }
  static __m512i Dot(__m512i acc, __m512i x, __m512i w) { return FmaHalf(x, w, acc); }
};
static constexpr GemmRun kRun8x48 = DispatchTileHalf<Vector, LhsHalf<Format::kF16>, WeightsPairs, 8, 3>;
static constexpr GemmRun kRun6x64 = DispatchTileHalf<Vector, LhsHalf<Format::kF16>, WeightsPairs, 6, 4>;
#else
static constexpr GemmRun kRun8x48 = nullptr, kRun6x64 = nullptr;
#endif

// Two instructions a cycle, and every 32 k nine more per accumulator that widen it.
constexpr GemmKernel TileFp16(uint16_t mr, uint16_t nr, GemmRun run) {
  const float units = nr / 16.0f;
  GemmKernel row = TileHalfRow(Format::kF16, Format::kF16, mr, nr,
                               {.engine = Engine::kVector512,
                                .step_row = units / 2 * (1 + 9 / 16.0f),
                                .step_load = 0.25f,
                                .step_min = units * 1.5f,
                                .row = units * 3 + 2,
                                .tile = 30},
                               run);
  row.precision = Precision::kFp16;
  return row;
}

// The same of float32 rows, which come as float16.
[[maybe_unused]] constexpr GemmKernel NarrowedFp16(GemmKernel row) {
  row.lhs = Format::kF32;
  row.lhs_forms = kLhsRows;
  row.lhs_layout = kF16Rows;
  return row;
}

}  // namespace
}  // namespace quern::ukernel
