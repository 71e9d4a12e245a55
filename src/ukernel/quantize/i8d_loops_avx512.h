// The loops of quantization to int8 on AVX-512. For kernel files of that ISA only.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace quern::ukernel {
namespace {

struct Avx512Loops {
  static constexpr size_t kStep = 16;

  static __mmask16 First(size_t count) { return static_cast<__mmask16>((1u << count) - 1u); }

  static void Range(const float* x, size_t count, float& lo, float& hi) {
    __m512 low[4], high[4];
    for (int j = 0; j < 4; ++j) low[j] = high[j] = _mm512_setzero_ps();
    const auto extend = [&](int j, __m512 y) {  // the second operand where the first is NaN
      low[j] = _mm512_min_ps(y, low[j]);
      high[j] = _mm512_max_ps(y, high[j]);
    };
    for (; count >= 4 * kStep; count -= 4 * kStep, x += 4 * kStep) {
      for (int j = 0; j < 4; ++j) extend(j, _mm512_loadu_ps(x + kStep * static_cast<size_t>(j)));
    }
    for (; count >= kStep; count -= kStep, x += kStep) extend(0, _mm512_loadu_ps(x));
    if (count) extend(1, _mm512_maskz_loadu_ps(First(count), x));
    const float least =
        _mm512_reduce_min_ps(_mm512_min_ps(_mm512_min_ps(low[0], low[1]), _mm512_min_ps(low[2], low[3])));
    const float most =
        _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(high[0], high[1]), _mm512_max_ps(high[2], high[3])));
    lo = least < lo ? least : lo;
    hi = most > hi ? most : hi;
  }

  static __m128i Sixteen(__m512 x, __m512 scale, __m512i zero_point) {
    // Far outside of int8; NaN becomes the lowest value.
    const __m512 y = _mm512_min_ps(_mm512_max_ps(_mm512_mul_ps(x, scale), _mm512_set1_ps(-512)), _mm512_set1_ps(512));
    // Half away from zero: what is almost a half makes a half whole, by rounding, and nothing less.
    const __m512i sign = _mm512_set1_epi32(INT32_MIN), half = _mm512_castps_si512(_mm512_set1_ps(0x1.fffffep-2f));
    const __m512i outwards = _mm512_ternarylogic_epi32(_mm512_castps_si512(y), sign, half, 0xea);  // y & sign | half
    const __m512i whole = _mm512_cvttps_epi32(_mm512_add_ps(y, _mm512_castsi512_ps(outwards)));
    return _mm512_cvtsepi32_epi8(_mm512_add_epi32(whole, zero_point));
  }

  static void Quantize(const float* x, size_t count, float scale, int zero_point, int8_t* q) {
    const __m512 scales = _mm512_set1_ps(scale);
    const __m512i zero = _mm512_set1_epi32(zero_point);
    for (; count >= kStep; count -= kStep, x += kStep, q += kStep) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(q), Sixteen(_mm512_loadu_ps(x), scales, zero));
    }
    if (count) {
      _mm_mask_storeu_epi8(q, First(count), Sixteen(_mm512_maskz_loadu_ps(First(count), x), scales, zero));
    }
  }
};

}  // namespace
}  // namespace quern::ukernel
