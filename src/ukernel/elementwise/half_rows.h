// Rows between float32 and float16: by their instructions where the including file's ISA has them, else as plain loops.
// Kernel-safe.
#pragma once

#include "ukernel/elementwise/conversions.h"
#include "ukernel/elementwise/row_loops.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace quern::ukernel {
namespace {

#if defined(__AVX512F__)
constexpr int64_t kHalves = 16;
inline void WidenHalves(const uint16_t* x, float* y) {
  _mm512_storeu_ps(y, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))));
}
inline void NarrowToHalves(const float* x, uint16_t* y) {
  const __m256i halves = _mm512_cvtps_ph(_mm512_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), halves);
}
#elif defined(__F16C__)
constexpr int64_t kHalves = 8;
inline void WidenHalves(const uint16_t* x, float* y) {
  _mm256_storeu_ps(y, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))));
}
inline void NarrowToHalves(const float* x, uint16_t* y) {
  const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y), halves);
}
#endif

#if defined(__F16C__)
void FromHalves(int64_t n, const void* x, void* y, const RowParameters&) {
  const auto* from = static_cast<const uint16_t*>(x);
  auto* to = static_cast<float*>(y);
  int64_t i = 0;
  for (; i + kHalves <= n; i += kHalves) WidenHalves(from + i, to + i);
  for (; i < n; ++i) to[i] = HalfToFloat(from[i]);
}
void ToHalves(int64_t n, const void* x, void* y, const RowParameters&) {
  const auto* from = static_cast<const float*>(x);
  auto* to = static_cast<uint16_t*>(y);
  int64_t i = 0;
  for (; i + kHalves <= n; i += kHalves) NarrowToHalves(from + i, to + i);
  for (; i < n; ++i) to[i] = FloatToHalf(from[i]);
}
#else
constexpr UnaryRow FromHalves = UnaryLoop<Float16, float, Converted<float>{}>;
constexpr UnaryRow ToHalves = UnaryLoop<float, Float16, Converted<Float16>{}>;
#endif

}  // namespace
}  // namespace quern::ukernel
