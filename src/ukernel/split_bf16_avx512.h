// Splitting float32 lanes in bf16 terms with AVX-512, the bits of SplitBf16. For kernel files of that ISA only.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "ukernel/split_flags.h"

namespace quern::ukernel {
namespace {

// The nearest bf16 of each lane in its low 16 bits, ties to even, NaN quiet.
inline __m512i NearestBf16(__m512 x) {
  const __m512i u = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i near = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd), 16);
  const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(0x40));
  // Of NaN, by class: compilers would compare the float16 that x were made from, one by one.
  return _mm512_mask_mov_epi32(near, _mm512_fpclass_ps_mask(x, 0x81), quiet);
}

template <size_t kTerms>
struct Bf16Terms {
  __m512i term[kTerms];  // 16 bits in each lane
};

template <size_t kTerms>
inline Bf16Terms<kTerms> Split(__m512 x) {
  Bf16Terms<kTerms> t;
  for (size_t i = 0; i < kTerms; ++i) {
    t.term[i] = NearestBf16(x);
    x = _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(t.term[i], 16)));
  }
  return t;
}

// 16 lines of numbers, a lane each, or one whose numbers are over all lanes.
struct SplitLines {
  __m512 largest = _mm512_setzero_ps(), sum = _mm512_setzero_ps();

  void Add(__m512 x) {
    const __m512 magnitude = _mm512_abs_ps(x);
    largest = _mm512_max_ps(largest, magnitude);
    sum = _mm512_add_ps(sum, magnitude);
  }
  // A maximum drops NaN, a sum does not.
  __mmask16 NoNumbers() const { return _mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q); }
};

// The lanes of x that count beside the largest number of their line.
inline __mmask16 Near(__m512 x, __m512 largest) {
  return _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_mul_ps(largest, _mm512_set1_ps(kSplitNear)), _CMP_GE_OQ);
}

// SplitFlags of one line of k numbers over all lanes; `count()` is how many of them are Near(.., its argument).
template <size_t kTerms, class Count>
inline uint32_t FlagsOfLine(const SplitLines& s, size_t k, Count count) {
  if (s.NoNumbers()) return kPackSplitUnsafe;
  const float largest = _mm512_reduce_max_ps(s.largest);
  if (largest == 0) return kPackFine;
  if (largest < kSplitLow || largest > kSplitHigh) return kPackSplitUnsafe;
  if (kTerms < 3 || _mm512_reduce_add_ps(s.sum) >= largest * SplitPlenty(k)) return kPackFine;
  return FewFlags(count(_mm512_set1_ps(largest)), largest, k);
}

// Those of 16 lines of k numbers, a lane each, or-ed; line `i` of numbers is at(i).
template <size_t kTerms, class At>
inline uint32_t FlagsOfLanes(const SplitLines& s, size_t k, At at) {
  const __m512 zero = _mm512_setzero_ps();
  const __mmask16 used = _mm512_cmp_ps_mask(s.largest, zero, _CMP_NEQ_UQ);
  const __mmask16 low = _mm512_mask_cmp_ps_mask(used, s.largest, _mm512_set1_ps(kSplitLow), _CMP_LT_OQ);
  const __mmask16 high = _mm512_cmp_ps_mask(s.largest, _mm512_set1_ps(kSplitHigh), _CMP_GT_OQ);
  if (s.NoNumbers() | low | high) return kPackSplitUnsafe;
  const __m512 plenty = _mm512_mul_ps(s.largest, _mm512_set1_ps(SplitPlenty(k)));
  if (kTerms < 3 || !_mm512_mask_cmp_ps_mask(used, s.sum, plenty, _CMP_LT_OQ)) return kPackFine;
  __m512i near = _mm512_setzero_si512();
  for (size_t i = 0; i < k; ++i) {
    near = _mm512_mask_add_epi32(near, Near(at(i), s.largest), near, _mm512_set1_epi32(1));
  }
  alignas(64) uint32_t counts[16];
  alignas(64) float largest[16];
  _mm512_store_si512(counts, near);
  _mm512_store_ps(largest, s.largest);
  uint32_t flags = kPackFine;
  for (size_t lane = 0; lane < 16; ++lane) {
    if (used >> lane & 1) flags |= FewFlags(counts[lane], largest[lane], k);
  }
  return flags;
}

}  // namespace
}  // namespace quern::ukernel
