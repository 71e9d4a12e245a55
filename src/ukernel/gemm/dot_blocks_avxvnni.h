// Dot products of int8 rows by block-quantized weights with VPDPBUSD of 256 bits, for tile_blocks.h. For kernel files
// of AVX-VNNI only.
#pragma once

#include "ukernel/gemm/dot_blocks_ymm.h"
#include "ukernel/vnni_vex.h"

namespace quern::ukernel {
namespace {

template <Format element>
struct BlockDot : BlockDotYmm<element> {
  using Weights = __m256i;
  using Sum = __m256i;
  static constexpr int kRows = 4, kGroups = 8, kFewGroups = 8, kFewRows = 2, kFewAsks = 2, kChains = 2;
  static constexpr bool kSeeds = true, kCentered = false;

  template <int NG>
  QUERN_INLINE static void Load(const char* p, Weights (&w)[NG]) {
    LoadWeightBytes<BlockDot>(p, w);
  }
  static Sum Dot(Sum sum, __m256i group, Weights w) { return vnni::DotUS(sum, w, group); }
  static __m256i Total(Sum sum) { return sum; }
};

}  // namespace
}  // namespace quern::ukernel
