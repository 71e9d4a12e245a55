// The rows of a few float32 rows by blocks as integers (tile_f32_blocks_split.h) on AVX512-VNNI, alike for every kind
// of blocks. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_f32_blocks_split.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_blocks_avx512vnni.h"
#include "ukernel/gemm/numbers_avx512.h"
#endif

namespace quern::ukernel {
namespace {

constexpr int kSplitMr = 2, kSplitNr = 256;

#if QUERN_ISA_HERE
template <Format kElement>
using Split =
    F32BlocksSplit<BlockDot<kElement>, kSplitMr, kSplitNr, RunF32BlocksFew<Numbers, kElement, kSplitMr, kSplitNr>>;
#else
template <Format kElement>
struct Split {
  struct Scratch {};
  static constexpr GemmRun Run = nullptr;
};
#endif

// Splitting a row is step_load: it does not depend on the columns.
template <Format kElement>
constexpr GemmKernel SplitRow() {
  const GemmCost cost{
      .engine = Engine::kVector512, .step_row = 245, .step_load = 35, .step_min = 280, .row = 80, .tile = 400};
  return F32BlocksSplitRow<Split<kElement>>(F32BlocksFewRow<kSplitMr, kSplitNr>(kElement, cost, Split<kElement>::Run));
}

}  // namespace
}  // namespace quern::ukernel
