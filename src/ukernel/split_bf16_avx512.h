// Splitting float32 lanes in bf16 terms with AVX-512, the bits of SplitBf16. For kernel files of that ISA only.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

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

// Lanes that SplitsSafely denies: neither zero nor of an exponent in [25, 253].
inline __mmask16 SplitsUnsafely(__m512 x) {
  const __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
  const __m512i above = _mm512_sub_epi32(_mm512_srli_epi32(magnitude, 23), _mm512_set1_epi32(25));
  return _mm512_mask_cmpgt_epu32_mask(_mm512_test_epi32_mask(magnitude, magnitude), above, _mm512_set1_epi32(253 - 25));
}

}  // namespace
}  // namespace quern::ukernel
