// The dot product of AVX-VNNI, or its emulation on AVX2. For kernel files of that ISA only.
#pragma once

#include <immintrin.h>

namespace quern::ukernel {
namespace {

// sum + the four products of unsigned bytes of u by signed ones of s, in each 32-bit lane; wraps.
inline __m256i DotBytes(__m256i sum, __m256i u, __m256i s) {
#if QUERN_ISA_EMULATED
  const __m256i u_even = _mm256_and_si256(u, _mm256_set1_epi16(255)), u_odd = _mm256_srli_epi16(u, 8);
  const __m256i s_even = _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8), s_odd = _mm256_srai_epi16(s, 8);
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(u_even, s_even));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(u_odd, s_odd));
#else
  return _mm256_dpbusd_avx_epi32(sum, u, s);
#endif
}

}  // namespace
}  // namespace quern::ukernel
