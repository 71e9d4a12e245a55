// What the dot products of int8 rows by block-quantized weights on 256 bits share. For kernel files of AVX2 and up
// only.
#pragma once

#include "ukernel/gemm/tile_blocks.h"
#include "ukernel/gemm/vector_i32_avx2.h"

namespace quern::ukernel {
namespace {

template <Format element>
struct BlockDotYmm {
  using V = IntVector;
  static constexpr Format kElement = element;
  static constexpr int kZero = BlockZeroOf(element);
  static constexpr int kVectors = 1;

  template <int kShift, int kBits>
  static __m256i Field(__m256i x) {
    return _mm256_and_si256(kShift ? _mm256_srli_epi32(x, kShift) : x, _mm256_set1_epi8((1 << kBits) - 1));
  }
  static __m256i Group(const char* p) {
    int32_t group;
    __builtin_memcpy(&group, p, 4);
    return _mm256_set1_epi32(group);
  }
  static __m256i MulZero(__m256i zeros, __m256i sum) { return _mm256_madd_epi16(zeros, sum); }
  static void SumPieces(const char* row, size_t count, size_t piece, int32_t* out) {
    for (size_t i = 0; i < count; ++i, row += piece) {
      // Sums of bytes turned to unsigned, in two 64-bit lanes.
      const auto sums = [&](int at) {
        const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + at));
        return _mm_sad_epu8(_mm_xor_si128(x, _mm_set1_epi8(-128)), _mm_setzero_si128());
      };
      __m128i x = sums(0);
      if (piece == 32) x = _mm_add_epi32(x, sums(16));
      out[i] = _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_unpackhi_epi64(x, x))) - static_cast<int32_t>(128 * piece);
    }
  }
};

}  // namespace
}  // namespace quern::ukernel
