// Dot products of int8 rows by block-quantized weights with VPDPBSSD and VPDPBSUD, for tile_blocks.h: signed weights
// need no sums of the rows. For kernel files of AVX-VNNI-INT8 only.
#pragma once

#include "ukernel/gemm/dot_blocks_ymm.h"
#include "ukernel/vnni_vex.h"

namespace quern::ukernel {
namespace {

template <Format element>
struct BlockDot : BlockDotYmm<element> {
  using Weights = __m256i;
  using Sum = __m256i;
  static constexpr int kRows = 3, kGroups = 8, kFewRows = 0, kChains = 1;
  // Those of 8 bits less a zero point of their own would take 9.
  static constexpr bool kSeeds = true, kCentered = element != Format::kU8;

  template <int NG>
  QUERN_INLINE static void Load(const char* p, Weights (&w)[NG]) {
    LoadWeightBytes<BlockDot>(p, w);
  }
  static Sum Dot(Sum sum, __m256i group, Weights w) {
    return kCentered ? vnni::DotSS(sum, group, w) : vnni::DotSU(sum, group, w);
  }
  static __m256i Total(Sum sum) { return sum; }
};

}  // namespace
}  // namespace quern::ukernel
