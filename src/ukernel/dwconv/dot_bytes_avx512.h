// Bytes as int32 lanes for depthwise rows on AVX-512. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/vector_i32_avx512.h"

namespace quern::ukernel {
namespace {

struct DwBytes512 {
  template <bool kSigned>
  static __m512i Wide(__m128i x) {
    return kSigned ? _mm512_cvtepi8_epi32(x) : _mm512_cvtepu8_epi32(x);
  }
  template <bool kSigned>
  static __m512i Widen(const char* p) {
    return Wide<kSigned>(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  template <bool kSigned>
  static __m512i WidenPart(const char* p, size_t, __mmask16 mask) {
    return Wide<kSigned>(_mm_maskz_loadu_epi8(mask, p));
  }
  static __m512i Weights(const char* p) { return _mm512_loadu_si512(p); }
  // The weights' upper halves are zero, so that those of x do not count.
  static __m512i MulAdd(__m512i x, __m512i w, __m512i sum) {
#if defined(__AVX512VNNI__)
    return _mm512_dpwssd_epi32(sum, x, w);
#else
    return _mm512_add_epi32(sum, _mm512_madd_epi16(x, w));
#endif
  }
};

}  // namespace
}  // namespace quern::ukernel
