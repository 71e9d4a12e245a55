// Operands of tile_half.h on AVX-512, by conversion to float32. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_half.h"
#include "ukernel/gemm/vector_f32_avx512.h"

namespace quern::ukernel {
namespace {

// Staged: the converted rows are read at one distance from one pointer.
struct LhsBf16 {
  static constexpr Format kFormat = Format::kBf16;
  static constexpr bool kStaged = true;
  static constexpr size_t kElement = 4;
  static __m512 Widen(__m256i x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16)); }
  QUERN_INLINE static void Stage(const char* from, size_t count, float* to) {
    for (; count >= 16; count -= 16, from += 32, to += 16) {
      _mm512_store_ps(to, Widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
    }
    if (count) {
      _mm512_store_ps(to, Widen(_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << count) - 1u), from)));
    }
  }
};

struct LhsF16 {
  static constexpr Format kFormat = Format::kF16;
  static constexpr bool kStaged = true;
  static constexpr size_t kElement = 4;
  QUERN_INLINE static void Stage(const char* from, size_t count, float* to) {
    for (; count >= 16; count -= 16, from += 32, to += 16) {
      _mm512_store_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
    }
    if (count) {
      const __mmask16 mask = static_cast<__mmask16>((1u << count) - 1u);
      _mm512_store_ps(to, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from)));
    }
  }
};

// The even and the odd k of bf16 pairs by a shift and a mask.
struct WeightsBf16 : WeightsInF32<Vector> {
  static constexpr int kParts = 2;
  template <int P>
  static __m512 Weights(const char* p) {
    const __m512i w = _mm512_loadu_si512(p);
    return _mm512_castsi512_ps(P == 0 ? _mm512_slli_epi32(w, 16)
                                      : _mm512_and_si512(w, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  template <int P>
  static __m512 Lhs(const char* p) {
    return _mm512_set1_ps(reinterpret_cast<const float*>(p)[P]);
  }
};

// Pairs of f16 converted where they stand: even and odd k are summed in neighbouring lanes.
struct WeightsF16 : WeightsInF32<Vector> {
  static constexpr int kFold = 2, kAsks = 4;
  static __m512 Fold(const __m512* dots) {
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
    return _mm512_add_ps(_mm512_permutex2var_ps(dots[0], even, dots[1]), _mm512_permutex2var_ps(dots[0], odd, dots[1]));
  }
  template <int>
  static __m512 Weights(const char* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  template <int>
  static __m512 Lhs(const char* p) {
    double pair;
    __builtin_memcpy(&pair, p, sizeof(pair));
    return _mm512_castpd_ps(_mm512_set1_pd(pair));
  }
};

}  // namespace
}  // namespace quern::ukernel
