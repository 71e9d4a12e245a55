// Squares of float32 transposed with AVX. For kernel files of AVX2 only.
#pragma once

#include <immintrin.h>

#include <cstddef>

namespace quern::ukernel {
namespace {

struct Transpose8 {
  static constexpr size_t kSide = 8;

  static void Run(const char* in, ptrdiff_t in_stride, char* out, size_t out_stride) {
    Run(in, in_stride,
        [=](size_t i, __m256 x) { _mm256_storeu_ps(reinterpret_cast<float*>(out + i * out_stride), x); });
  }

  // Calls put(row of the result, it).
  template <class Put>
  static void Run(const char* in, ptrdiff_t in_stride, const Put& put) {
    // Halves of rows i and i + 4 share a register, so that two rounds of in-lane shuffles finish the transpose.
    __m256 r[8];
    for (int i = 0; i < 4; ++i) {
      const float* low = reinterpret_cast<const float*>(in + i * in_stride);
      const float* high = reinterpret_cast<const float*>(in + (i + 4) * in_stride);
      r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
      r[i + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low + 4)), _mm_loadu_ps(high + 4), 1);
    }
    Finish<false>(r, put);
  }

  // Rows in registers. kCrossed: with the middle quarters of 64 bits exchanged, as two vectors are narrowed to one.
  template <bool kCrossed, class Put>
  static void Run(const __m256 (&rows)[8], const Put& put) {
    __m256 r[8];
    for (int i = 0; i < 4; ++i) {
      r[i] = _mm256_permute2f128_ps(rows[i], rows[i + 4], 0x20);
      r[i + 4] = _mm256_permute2f128_ps(rows[i], rows[i + 4], 0x31);
    }
    Finish<kCrossed>(r, put);
  }

 private:
  template <bool kCrossed, class Put>
  static void Finish(__m256 (&r)[8], const Put& put) {
    __m256 t[8];
    for (int h = 0; h < 8; h += 4) {
      t[h] = _mm256_unpacklo_ps(r[h], r[h + 1]);
      t[h + 1] = _mm256_unpackhi_ps(r[h], r[h + 1]);
      t[h + 2] = _mm256_unpacklo_ps(r[h + 2], r[h + 3]);
      t[h + 3] = _mm256_unpackhi_ps(r[h + 2], r[h + 3]);
      r[h] = _mm256_shuffle_ps(t[h], t[h + 2], 0x44);
      r[h + 1] = _mm256_shuffle_ps(t[h], t[h + 2], 0xee);
      r[h + 2] = _mm256_shuffle_ps(t[h + 1], t[h + 3], 0x44);
      r[h + 3] = _mm256_shuffle_ps(t[h + 1], t[h + 3], 0xee);
    }
    for (size_t i = 0; i < 8; ++i) put(i, r[kCrossed && (i / 2 == 1 || i / 2 == 2) ? i ^ 6 : i]);
  }
};

}  // namespace
}  // namespace quern::ukernel
