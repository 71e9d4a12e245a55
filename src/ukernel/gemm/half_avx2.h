// Operands of tile_half.h on AVX2 with F16C, by conversion to float32. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/tile_half.h"
#include "ukernel/gemm/vector_f32_avx2.h"

namespace quern::ukernel {
namespace {

// Staged: the converted rows are read at one distance from one pointer.
struct LhsBf16 {
  static constexpr Format kFormat = Format::kBf16;
  static constexpr bool kStaged = true;
  static constexpr size_t kElement = 4;
  static __m256 Widen(__m128i x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16)); }
  QUERN_INLINE static void Stage(const char* from, size_t count, float* to) {
    for (; count >= 8; count -= 8, from += 16, to += 8) {
      _mm256_store_ps(to, Widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
    }
    if (count) {
      alignas(16) char last[16] = {};
      for (size_t i = 0; i < 2 * count; i += 2) __builtin_memcpy(last + i, from + i, 2);
      _mm256_store_ps(to, Widen(_mm_load_si128(reinterpret_cast<const __m128i*>(last))));
    }
  }
};

struct LhsF16 {
  static constexpr Format kFormat = Format::kF16;
  static constexpr bool kStaged = true;
  static constexpr size_t kElement = 4;
  QUERN_INLINE static void Stage(const char* from, size_t count, float* to) {
    for (; count >= 8; count -= 8, from += 16, to += 8) {
      _mm256_store_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
    }
    if (count) {
      alignas(16) char last[16] = {};
      for (size_t i = 0; i < 2 * count; i += 2) __builtin_memcpy(last + i, from + i, 2);
      _mm256_store_ps(to, _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(last))));
    }
  }
};

// The even and the odd k of bf16 pairs by a shift and a mask.
struct WeightsBf16 : WeightsInF32<Vector> {
  static constexpr int kParts = 2;
  template <int P>
  static __m256 Weights(const char* p) {
    const __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm256_castsi256_ps(P == 0 ? _mm256_slli_epi32(w, 16)
                                      : _mm256_and_si256(w, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  template <int P>
  static __m256 Lhs(const char* p) {
    return _mm256_broadcast_ss(reinterpret_cast<const float*>(p) + P);
  }
};

// Pairs of f16 converted where they stand: even and odd k are summed in neighbouring lanes.
struct WeightsF16 : WeightsInF32<Vector> {
  static constexpr int kFold = 2, kAsks = 2;
  static constexpr bool kHolds = false;
  static __m256 Fold(const __m256* dots) {
    const __m256 mixed = _mm256_hadd_ps(dots[0], dots[1]);  // columns 0 1 4 5 2 3 6 7
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), _MM_SHUFFLE(3, 1, 2, 0)));
  }
  template <int>
  static __m256 Weights(const char* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  template <int>
  static __m256 Lhs(const char* p) {
    double pair;
    __builtin_memcpy(&pair, p, sizeof(pair));
    return _mm256_castpd_ps(_mm256_set1_pd(pair));
  }
};

}  // namespace
}  // namespace quern::ukernel
