// The rows of a few float32 rows by blocks as integers (tile_f32_blocks_split.h), alike for every kind of blocks. The
// including file has BlockDot and Numbers of its ISA where QUERN_ISA_HERE. For kernel files only.
#pragma once

#include "ukernel/gemm/tile_f32_blocks_split.h"

namespace quern::ukernel {
namespace {

constexpr int kSplitNr = 256;

#if QUERN_ISA_HERE
template <Format kElement, int MR>
using Split = F32BlocksSplit<BlockDot<kElement>, MR, kSplitNr, RunF32BlocksFew<Numbers, kElement, MR, kSplitNr>>;
#else
template <Format kElement, int MR>
struct Split {
  struct Scratch {};
  static constexpr GemmRun Run = nullptr;
};
#endif

// Splitting a row is step_load of `cost`, as it does not depend on the columns.
template <Format kElement, int MR>
constexpr GemmKernel SplitRow(const GemmCost& cost) {
  using Body = Split<kElement, MR>;
  return F32BlocksSplitRow<Body>(F32BlocksFewRow<MR, kSplitNr>(kElement, cost, Body::Run));
}

}  // namespace
}  // namespace quern::ukernel
