// int8 dot products by VPMADDWD for tile_i8.h: both sides widened to 16 bits, but where no sum of two products needs
// more than 16 bits. For kernel files of AVX2 only.
#pragma once

#include "ukernel/gemm/tile_i8.h"
#include "ukernel/gemm/vector_i32_avx2.h"

namespace quern::ukernel {
namespace {

// Bytes by VPMADDUBSW, whose sums of two neighbours saturate at 16 bits: where the largest byte of the left side times
// the bound of the weights' pairs is at most kMostOfPair they do not, and a quarter of the instructions is saved, and
// the widening of weights. (Of neighbours of different signs each product alone fits.)
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

  static Weights LoadWeights(const char* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static __m256i LoadGroup(const char* p) {
    int32_t group;
    __builtin_memcpy(&group, p, 4);
    return _mm256_set1_epi32(group);
  }
  static __m256i Dot(__m256i acc, __m256i x, __m256i w) {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), _mm256_set1_epi16(1)));
  }

  static Largest NoBytes() { return _mm256_setzero_si256(); }
  static unsigned LargestOf(Largest x) {
    __m128i most = _mm_max_epu8(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    // The least of 16 bit words finds that of bytes too, once each word holds the lesser of its bytes.
    most = _mm_xor_si128(most, _mm_set1_epi8(-1));
    most = _mm_min_epu8(most, _mm_srli_epi16(most, 8));
    return 255u - (static_cast<unsigned>(_mm_cvtsi128_si32(_mm_minpos_epu16(most))) & 255u);
  }
  // What is beyond `count` in the last group is 0, like its weights.
  static void Stage(const char* from, size_t count, char* to, Largest& largest) {
    const __m256i turn = kSignedLhs ? _mm256_set1_epi8(-128) : _mm256_setzero_si256();
    const size_t whole = count;
    for (; count >= 32; count -= 32, from += 32, to += 32) {
      const __m256i x = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)), turn);
      largest = _mm256_max_epu8(largest, x);
      _mm256_store_si256(reinterpret_cast<__m256i*>(to), x);
    }
    if (count >= 16) {
      const __m128i x =
          _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), _mm256_castsi256_si128(turn));
      largest = _mm256_max_epu8(largest, _mm256_zextsi128_si256(x));
      _mm_store_si128(reinterpret_cast<__m128i*>(to), x);
      count -= 16, from += 16, to += 16;
    }
    const auto put = [&](uint64_t x, size_t bytes) {
      largest = _mm256_max_epu8(largest, _mm256_zextsi128_si256(_mm_cvtsi64_si128(static_cast<int64_t>(x))));
      __builtin_memcpy(to, &x, bytes);
      from += bytes, to += bytes;
    };
    constexpr uint64_t kTurn = kSignedLhs ? 0x8080808080808080u : 0;
    if (count >= 8) {
      uint64_t x;
      __builtin_memcpy(&x, from, 8);
      put(x ^ kTurn, 8);
      count -= 8;
    }
    if (count >= 4) {
      uint32_t x;
      __builtin_memcpy(&x, from, 4);
      put(x ^ static_cast<uint32_t>(kTurn), 4);
      count -= 4;
    }
    if (count == 0) return;
    uint32_t x = 0;
    if (whole >= 4) {  // the bytes before are the row's too
      __builtin_memcpy(&x, from + count - 4, 4);
      x = (x ^ static_cast<uint32_t>(kTurn)) >> (8 * (4 - count));
    } else {
      for (size_t i = 0; i < count; ++i) x |= static_cast<uint32_t>(static_cast<uint8_t>(from[i])) << (8 * i);
      x ^= static_cast<uint32_t>(kTurn) >> (8 * (4 - count));
    }
    put(x, 4);
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
