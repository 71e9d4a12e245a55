// int8 dot products by VPMADDWD for tile_i8.h: both sides widened to 16 bits, but where no sum of two products needs
// more than 16 bits. For kernel files of AVX2 only.
#pragma once

#include "ukernel/gemm/last_bytes.h"
#include "ukernel/gemm/tile_i8.h"
#include "ukernel/gemm/vector_i32_avx2.h"

namespace quern::ukernel {
namespace {

// Bytes by VPMADDUBSW, whose sums of two neighbours saturate at 16 bits: where the largest byte of the left side times
// the bound of the weights' pairs is at most kMostOfPair they do not, and a quarter of the instructions is saved, and
// the widening of weights. (Of neighbours of different signs each product alone fits.) Where few groups have pairs
// beyond kMostOfNarrowPair, these are corrected.
template <bool kSignedLhs>
struct PairsAvx2 {
  using V = IntVector;
  using Weights = __m256i;
  using Largest = __m256i;
  static constexpr bool kHoldsWeights = true;
  static constexpr int kShift = kSignedLhs ? 128 : 0;
  static constexpr int kLatency = 1;
  static constexpr size_t kGroupBytes = 4;
  static constexpr unsigned kMostOfPair = 32767;
  static constexpr unsigned kAnyPair = 256;  // the bound of any weights
  static_assert(255 * kMostOfNarrowPair <= kMostOfPair);

  static Weights LoadWeights(const char* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static __m256i LoadGroup(const char* p) {
    int32_t group;
    __builtin_memcpy(&group, p, 4);
    return _mm256_set1_epi32(group);
  }
  static __m256i Dot(__m256i acc, __m256i x, __m256i w) {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), _mm256_set1_epi16(1)));
  }

  // What a group's products are beyond what Dot makes of them.
  static __m256i Lost(__m256i x, __m256i w) {
    const __m256i low = _mm256_set1_epi16(255);
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(x, low), _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(x, 8), _mm256_srai_epi16(w, 8));
    return _mm256_sub_epi32(_mm256_add_epi32(even, odd), Dot(_mm256_setzero_si256(), x, w));
  }

  static Largest NoBytes() { return _mm256_setzero_si256(); }
  static unsigned LargestOf(Largest x) {
    __m128i most = _mm_max_epu8(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    // The least of 16 bit words finds that of bytes too, once each word holds the lesser of its bytes.
    most = _mm_xor_si128(most, _mm_set1_epi8(-1));
    most = _mm_min_epu8(most, _mm_srli_epi16(most, 8));
    return 255u - (static_cast<unsigned>(_mm_cvtsi128_si32(_mm_minpos_epu16(most))) & 255u);
  }
  static void Stage(const char* from, size_t count, char* to, Largest& largest) {
    const __m256i turn = kSignedLhs ? _mm256_set1_epi8(-128) : _mm256_setzero_si256();
    const size_t whole = count;
    for (; count >= 32; count -= 32, from += 32, to += 32) {
      const __m256i x = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)), turn);
      largest = _mm256_max_epu8(largest, x);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x);
    }
    const auto put = [&](__m128i x) {
      x = _mm_xor_si128(x, _mm256_castsi256_si128(turn));
      largest = _mm256_max_epu8(largest, _mm256_zextsi128_si256(x));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), x);
    };
    if (count >= 16) {
      put(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
      count -= 16, from += 16, to += 16;
    }
    // What is beyond the row counts among the largest as well: 0, or 128.
    if (count) put(LastBytes(from + count, count, whole));
  }
};

// Weights stay in place, so that widening takes shifts alone: the even and the odd k of each group. The left side is
// staged to match: k0 k2 k1 k3.
struct WideAvx2 {
  __m256i even, odd;
};

template <bool kSignedLhs>
struct DotAvx2 {
  using V = IntVector;
  using Weights = WideAvx2;
  using Pairs = PairsAvx2<kSignedLhs>;
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
    const size_t whole = count;
    const auto put = [&](__m128i x) {
      const __m256i wide = kSignedLhs ? _mm256_cvtepi8_epi16(x) : _mm256_cvtepu8_epi16(x);
      constexpr int kOrder = _MM_SHUFFLE(3, 1, 2, 0);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                          _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(wide, kOrder), kOrder));
    };
    for (; count >= 16; count -= 16, from += 16, to += 32) {
      put(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    }
    if (count) put(LastBytes(from + count, count, whole));
  }
};

}  // namespace
}  // namespace quern::ukernel
