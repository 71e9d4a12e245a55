// Dot products of int8 rows by block-quantized weights with VPDPBUSD of 512 bits, for tile_blocks.h. The weights are
// the instruction's unsigned side, so that rows need no shift. For kernel files of AVX512-VNNI only.
#pragma once

#include "ukernel/gemm/tile_blocks.h"
#include "ukernel/gemm/vector_i32_avx512.h"

namespace quern::ukernel {
namespace {

template <Format element>
struct BlockDot {
  using V = IntVector;
  using Weights = __m512i;
  using Sum = __m512i;
  static constexpr Format kElement = element;
  static constexpr int kZero = BlockZeroOf(element);
  static constexpr int kVectors = 2, kRows = 2, kGroups = 8, kFewGroups = 8, kFewRows = 4, kFewAsks = 4, kChains = 2;
  static constexpr bool kSeeds = true, kCentered = false;

  template <int kShift, int kBits>
  static __m512i Field(__m512i x) {
    return _mm512_and_si512(kShift ? _mm512_srli_epi32(x, kShift) : x, _mm512_set1_epi8((1 << kBits) - 1));
  }
  template <int NG>
  QUERN_INLINE static void Load(const char* p, Weights (&w)[NG]) {
    LoadWeightBytes<BlockDot>(p, w);
  }
  static __m512i Group(const char* p) {
    int32_t group;
    __builtin_memcpy(&group, p, 4);
    return _mm512_set1_epi32(group);
  }
  static Sum Dot(Sum sum, __m512i group, Weights w) { return _mm512_dpbusd_epi32(sum, w, group); }
  static __m512i Total(Sum sum) { return sum; }
  static __m512i MulZero(__m512i zeros, __m512i sum) { return _mm512_madd_epi16(zeros, sum); }
  // Sums of neighbours, a's before b's.
  static __m512i AddPairs(__m512i a, __m512i b) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_add_epi32(_mm512_permutex2var_epi32(a, even, b), _mm512_permutex2var_epi32(a, odd, b));
  }
  // Rows are whole lines (kI8dRows, kI8bRows).
  static void SumPieces(const char* row, size_t count, size_t piece, int32_t* out) {
    const __m512i ones = _mm512_set1_epi8(1);
    for (size_t at = 0; at < count * piece; at += 512) {
      __m512i x[8];  // of groups
      for (size_t i = 0; i < 8; ++i) {
        x[i] = _mm512_setzero_si512();
        if (at + 64 * i < count * piece) x[i] = _mm512_dpbusd_epi32(x[i], ones, _mm512_loadu_si512(row + at + 64 * i));
      }
      for (size_t i = 0; i < 4; ++i) x[i] = AddPairs(x[2 * i], x[2 * i + 1]);
      x[0] = AddPairs(x[0], x[1]);
      x[1] = AddPairs(x[2], x[3]);
      if (piece == 32) {
        _mm512_storeu_si512(out + at / 32, AddPairs(x[0], x[1]));
      } else {
        _mm512_storeu_si512(out + at / 16, x[0]);
        if (at + 256 < count * piece) _mm512_storeu_si512(out + at / 16 + 16, x[1]);
      }
    }
  }
};

}  // namespace
}  // namespace quern::ukernel
