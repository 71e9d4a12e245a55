// Dot products of int8 rows by block-quantized weights with VPMADDUBSW, for tile_blocks.h. Weights of 4 bits keep every
// sum of a piece within 16 bits, so that none saturates; those of 8 are taken as two halves of 4. For kernel files of
// AVX2 only.
#pragma once

#include "ukernel/gemm/dot_blocks_ymm.h"

namespace quern::ukernel {
namespace {

template <Format element>
struct BlockDot : BlockDotYmm<element> {
  using Weights = __m256i;
  using Sum = __m256i;  // 16 bits
  static constexpr int kRows = 3, kGroups = 8, kFewGroups = 8, kFewRows = 1, kFewAsks = 2, kChains = 1;
  static constexpr bool kSeeds = false, kCentered = false;

  template <int NG>
  QUERN_INLINE static void Load(const char* p, Weights (&w)[NG]) {
    LoadWeightBytes<BlockDot>(p, w);
  }
  static Sum Dot(Sum sum, __m256i group, Weights w) { return _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, group)); }
  static __m256i Total(Sum sum) { return _mm256_madd_epi16(sum, _mm256_set1_epi16(1)); }
};

struct BlockHalves {
  __m256i low, high;
};

template <Format element>
struct BlockDotHalves : BlockDotYmm<element> {
  using Weights = BlockHalves;
  using Sum = BlockHalves;
  static constexpr int kRows = 2, kGroups = 4, kFewGroups = 8, kFewRows = 1, kFewAsks = 2, kChains = 1;
  static constexpr bool kSeeds = false, kCentered = false;

  template <int NG>
  QUERN_INLINE static void Load(const char* p, Weights (&w)[NG]) {
    __m256i x[NG];
    LoadWeightBytes<BlockDotHalves>(p, x);
    const __m256i four = _mm256_set1_epi8(15);
    QUERN_UNROLL for (int i = 0; i < NG; ++i) {
      w[i] = {_mm256_and_si256(x[i], four), _mm256_and_si256(_mm256_srli_epi32(x[i], 4), four)};
    }
  }
  static Sum Dot(Sum sum, __m256i group, Weights w) {
    return {_mm256_add_epi16(sum.low, _mm256_maddubs_epi16(w.low, group)),
            _mm256_add_epi16(sum.high, _mm256_maddubs_epi16(w.high, group))};
  }
  static __m256i Total(Sum sum) {
    return _mm256_add_epi32(_mm256_madd_epi16(sum.low, _mm256_set1_epi16(1)),
                            _mm256_madd_epi16(sum.high, _mm256_set1_epi16(16)));
  }
};
template <>
struct BlockDot<Format::kI8> : BlockDotHalves<Format::kI8> {};
template <>
struct BlockDot<Format::kU8> : BlockDotHalves<Format::kU8> {};

}  // namespace
}  // namespace quern::ukernel
