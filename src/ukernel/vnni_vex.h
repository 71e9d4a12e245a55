// The 256-bit byte dot products of AVX-VNNI and AVX-VNNI-INT8 behind one name each: intrinsics, or plain C++ where
// QUERN_ISA_EMULATED. acc[i] += the sum over j < 4 of a[4i + j] * b[4i + j], which wraps around. Kernel-safe.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace quern::ukernel {
namespace {
namespace vnni {

#if QUERN_ISA_EMULATED

// Out of line: compiled once, not in each of a file's tiles.
template <class A, class B>
__attribute__((noinline)) __m256i DotBytes(__m256i acc, __m256i a, __m256i b) {
  uint32_t c[8];
  A x[32];
  B y[32];
  __builtin_memcpy(c, &acc, 32);
  __builtin_memcpy(x, &a, 32);
  __builtin_memcpy(y, &b, 32);
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 4; ++j) c[i] += static_cast<uint32_t>(x[4 * i + j] * y[4 * i + j]);
  }
  __builtin_memcpy(&acc, c, 32);
  return acc;
}

[[maybe_unused]] __m256i DotUS(__m256i acc, __m256i a, __m256i b) { return DotBytes<uint8_t, int8_t>(acc, a, b); }
[[maybe_unused]] __m256i DotSS(__m256i acc, __m256i a, __m256i b) { return DotBytes<int8_t, int8_t>(acc, a, b); }
[[maybe_unused]] __m256i DotSU(__m256i acc, __m256i a, __m256i b) { return DotBytes<int8_t, uint8_t>(acc, a, b); }

#else

#if defined(__AVXVNNI__)
inline __m256i DotUS(__m256i acc, __m256i a, __m256i b) { return _mm256_dpbusd_avx_epi32(acc, a, b); }
#endif
#if defined(__AVXVNNIINT8__)
inline __m256i DotSS(__m256i acc, __m256i a, __m256i b) { return _mm256_dpbssd_epi32(acc, a, b); }
inline __m256i DotSU(__m256i acc, __m256i a, __m256i b) { return _mm256_dpbsud_epi32(acc, a, b); }
#endif

#endif

}  // namespace vnni
}  // namespace
}  // namespace quern::ukernel
