// int8 dot products by VPMADDWD for tile_i8.h: both sides widened to 16 bits. For kernel files of AVX2 only.
#pragma once

#include "ukernel/gemm/tile_i8.h"
#include "ukernel/gemm/vector_i32_avx2.h"

namespace quern::ukernel {
namespace {

// Weights stay in place, so that widening takes shifts alone: the even and the odd k of each group. The left side is
// staged to match: k0 k2 k1 k3.
struct WideAvx2 {
  __m256i even, odd;
};

template <bool kSignedLhs>
struct DotAvx2 {
  using V = IntVector;
  using Weights = WideAvx2;
  static constexpr bool kHoldsWeights = true;
  static constexpr int kShift = 0;
  static constexpr int kLatency = 1;  // enough accumulators are left by the additions
  static constexpr size_t kGroupBytes = 8;

  static Weights LoadWeights(const char* p) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8), _mm256_srai_epi16(x, 8)};
  }
  static __m256i Pair(const char* p) {
    int32_t pair;
    __builtin_memcpy(&pair, p, 4);
    return _mm256_set1_epi32(pair);
  }
  static WideAvx2 LoadGroup(const char* p) { return {Pair(p), Pair(p + 4)}; }
  static __m256i Dot(__m256i acc, const WideAvx2& x, const Weights& w) {
    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(w.even, x.even));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(w.odd, x.odd));
  }
  static void Stage(const char* from, size_t count, char* to) {
    for (; count >= 16; count -= 16, from += 16, to += 32) {
      const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      const __m256i wide = kSignedLhs ? _mm256_cvtepi8_epi16(x) : _mm256_cvtepu8_epi16(x);
      constexpr int kOrder = _MM_SHUFFLE(3, 1, 2, 0);
      _mm256_store_si256(reinterpret_cast<__m256i*>(to),
                         _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(wide, kOrder), kOrder));
    }
    for (; count; from += 4, to += 8) {
      int16_t group[4] = {};
      constexpr int kAt[4] = {0, 2, 1, 3};
      for (int i = 0; i < 4 && count; ++i, --count) {
        group[kAt[i]] = kSignedLhs ? static_cast<int8_t>(from[i]) : static_cast<uint8_t>(from[i]);
      }
      __builtin_memcpy(to, group, 8);
    }
  }
};

}  // namespace
}  // namespace quern::ukernel
