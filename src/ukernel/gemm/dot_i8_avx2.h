// int8 dot products by VPMADDWD for tile_i8.h: both sides widened to 16 bits, but where no sum of two products needs
// more than 16 bits. For kernel files of AVX2 only.
#pragma once

#include "ukernel/gemm/last_bytes.h"
#include "ukernel/gemm/tile_i8.h"
#include "ukernel/gemm/vector_i32_avx2.h"

namespace quern::ukernel {
namespace {

// Bytes by VPMADDUBSW, whose sums of two neighbours saturate at 16 bits: where no byte of the left side is larger than
// the bound of the weights' pairs allows they do not, and a quarter of the instructions is saved, and the widening of
// weights. (Of neighbours of different signs each product alone fits.) Where few groups of weights have pairs beyond
// kMostOfNarrowPair, or few of the left side bytes beyond a range, these are corrected.
template <bool kSignedLhs>
struct PairsAvx2 {
  using V = IntVector;
  using Weights = __m256i;
  using Bytes = __m256i;
  static constexpr bool kHoldsWeights = true;
  static constexpr int kShift = kSignedLhs ? 128 : 0;
  static constexpr int kLatency = 1;
  static constexpr size_t kGroupBytes = 4;
  static constexpr unsigned kAnyByte = 255;
  static_assert(kAnyByte * kMostOfNarrowPair <= 32767);

  // The largest byte by weights of this bound (0: any). Sums of 256 in magnitude are negative, of -128 twice.
  static constexpr unsigned MostByte(unsigned bound) {
    const unsigned most = bound == 0 || bound == 256 ? 128 : 32767 / bound;
    return most < kAnyByte ? most : kAnyByte;
  }

  // Bytes from low to low + most. What others have beyond it fits in int8.
  struct Range {
    int low = 0;
    int most;
    explicit Range(unsigned most_byte) : most(static_cast<int>(most_byte)) {}
    void Center(unsigned mean) {
      const int from = static_cast<int>(mean) - most / 2, last = static_cast<int>(kAnyByte) - most;
      low = from < 0 ? 0 : from < last ? from : last;
    }
  };

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

  static Bytes NoBytes() { return _mm256_setzero_si256(); }
  static unsigned LargestOf(Bytes x) {
    __m128i most = _mm_max_epu8(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    // The least of 16 bit words finds that of bytes too, once each word holds the lesser of its bytes.
    most = _mm_xor_si128(most, _mm_set1_epi8(-1));
    most = _mm_min_epu8(most, _mm_srli_epi16(most, 8));
    return 255u - (static_cast<unsigned>(_mm_cvtsi128_si32(_mm_minpos_epu16(most))) & 255u);
  }
  // f(at, bytes) for all of a row of `count`: the last may be there twice, what is beyond the row is 0, or 128.
  template <class F>
  QUERN_INLINE static void EachVector(const char* from, size_t count, F f) {
    const __m256i turn = kSignedLhs ? _mm256_set1_epi8(-128) : _mm256_setzero_si256();
    size_t at = 0;
    for (; count - at >= 32; at += 32) {
      f(at, _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at)), turn));
    }
    const auto half = [&](__m128i x) { f(at, _mm256_xor_si256(_mm256_broadcastsi128_si256(x), turn)); };
    if (count - at >= 16) {
      half(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
      at += 16;
    }
    if (at < count) half(LastBytes(from + count, count - at, count));
  }
  static void StoreBytes(char* to, __m256i x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x); }

  // These write up to 32 bytes beyond the row.
  static void Stage(const char* from, size_t count, char* to, Bytes& largest) {
    EachVector(from, count, [&](size_t at, __m256i x) __attribute__((always_inline)) {
      largest = _mm256_max_epu8(largest, x);
      StoreBytes(to + at, x);
    });
  }
  // Less range.low; what an element has beyond the range to `rest`.
  static void StageWithin(const char* from, size_t count, const Range& range, char* to, char* rest, Bytes& beyond,
                          Bytes& largest) {
    const __m256i low = _mm256_set1_epi8(static_cast<char>(range.low));
    const __m256i most = _mm256_set1_epi8(static_cast<char>(range.most));
    EachVector(from, count, [&](size_t at, __m256i x) __attribute__((always_inline)) {
      const __m256i within = _mm256_min_epu8(_mm256_subs_epu8(x, low), most);
      const __m256i left = _mm256_sub_epi8(_mm256_sub_epi8(x, low), within);
      beyond = _mm256_or_si256(beyond, left);
      largest = _mm256_max_epu8(largest, within);
      StoreBytes(to + at, within);
      StoreBytes(rest + at, left);
    });
  }
  // The sum of the elements in whole vectors.
  static uint64_t SumOf(const char* from, size_t count) {
    const __m256i turn = kSignedLhs ? _mm256_set1_epi8(-128) : _mm256_setzero_si256();
    __m256i sums = _mm256_setzero_si256();
    for (size_t at = 0; count - at >= 32; at += 32) {
      const __m256i x = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at)), turn);
      sums = _mm256_add_epi64(sums, _mm256_sad_epu8(x, _mm256_setzero_si256()));
    }
    uint64_t all[4];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(all), sums);
    return all[0] + all[1] + all[2] + all[3];
  }
  // A bit for each group of 4 bytes of kGroupsAtOnce that is not 0 in all of MR rows.
  static constexpr size_t kGroupsAtOnce = 8;
  template <int MR>
  static unsigned GroupsWithAny(const char* rows, size_t stride) {
    __m256i any = _mm256_setzero_si256();
    QUERN_UNROLL for (int r = 0; r < MR; ++r) {
      any = _mm256_or_si256(any, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows + r * stride)));
    }
    const __m256i none = _mm256_cmpeq_epi32(any, _mm256_setzero_si256());
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(none))) ^ 0xff;
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
  static constexpr int kOrder = _MM_SHUFFLE(3, 1, 2, 0);

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
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                          _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(wide, kOrder), kOrder));
    };
    for (; count >= 16; count -= 16, from += 16, to += 32) {
      put(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    }
    if (count) put(LastBytes(from + count, count, whole));
  }
  // A group of signed bytes.
  static void StageSigned(const char* from, char* to) {
    int32_t group;
    __builtin_memcpy(&group, from, 4);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to),
                     _mm_shufflelo_epi16(_mm_cvtepi8_epi16(_mm_cvtsi32_si128(group)), kOrder));
  }
};

}  // namespace
}  // namespace quern::ukernel
