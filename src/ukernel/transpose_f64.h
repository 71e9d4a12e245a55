// Squares of float64 transposed on any target, and with AVX. For kernel files only: internal linkage.
#pragma once

#include <cstddef>

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace quern::ukernel {
namespace {

#if defined(__AVX__)
struct TransposeF64 {
  static constexpr size_t kSide = 4;

  static void Run(const char* in, ptrdiff_t in_stride, char* out, size_t out_stride) {
    // Halves of rows i and i + 2 share a register: one round of in-lane shuffles finishes the transpose.
    const auto halves = [&](ptrdiff_t row, size_t half) {
      const double* low = reinterpret_cast<const double*>(in + row * in_stride) + 2 * half;
      const double* high = reinterpret_cast<const double*>(in + (row + 2) * in_stride) + 2 * half;
      return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(low)), _mm_loadu_pd(high), 1);
    };
    for (size_t half = 0; half < 2; ++half, out += 2 * out_stride) {
      const __m256d even = halves(0, half), odd = halves(1, half);
      _mm256_storeu_pd(reinterpret_cast<double*>(out), _mm256_unpacklo_pd(even, odd));
      _mm256_storeu_pd(reinterpret_cast<double*>(out + out_stride), _mm256_unpackhi_pd(even, odd));
    }
  }
};
#else
struct TransposeF64 {
  static constexpr size_t kSide = 2;

  static void Run(const char* in, ptrdiff_t in_stride, char* out, size_t out_stride) {
    typedef double V __attribute__((vector_size(16)));
    V a, b;
    __builtin_memcpy(&a, in, 16);
    __builtin_memcpy(&b, in + in_stride, 16);
    const V low = __builtin_shufflevector(a, b, 0, 2), high = __builtin_shufflevector(a, b, 1, 3);
    __builtin_memcpy(out, &low, 16);
    __builtin_memcpy(out + out_stride, &high, 16);
  }
};
#endif

}  // namespace
}  // namespace quern::ukernel
