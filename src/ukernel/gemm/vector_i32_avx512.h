// int32 lanes beside the float32 ones, for integer tiles on AVX-512. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/vector_f32_avx512.h"

namespace quern::ukernel {
namespace {

struct IntVector : Vector {
  static constexpr int kPrefetch = 4096;  // bytes ahead in each unit: a few rows read weights as fast as memory gives
  using Int = __m512i;
  static Int ZeroInt() { return _mm512_setzero_si512(); }
  static Int Set1Int(int32_t x) { return _mm512_set1_epi32(x); }
  static Int LoadInt(const int32_t* p) { return _mm512_loadu_si512(p); }
  static Int LoadMaskInt(const int32_t* p, Mask m) { return _mm512_maskz_loadu_epi32(m, p); }
  static void StoreInt(int32_t* p, Int x) { _mm512_storeu_si512(p, x); }
  static void StoreMaskInt(int32_t* p, Int x, Mask m) { _mm512_mask_storeu_epi32(p, m, x); }
  static Int AddInt(Int a, Int b) { return _mm512_add_epi32(a, b); }
  static Int MulInt(Int a, Int b) { return _mm512_mullo_epi32(a, b); }
  static Reg ToFloat(Int x) { return _mm512_cvtepi32_ps(x); }
  static Reg Round(Reg x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  // Integers in value that fit 8 bits, one byte per lane.
  static void StoreBytes(void* p, Reg x, Mask m) { _mm512_mask_cvtepi32_storeu_epi8(p, m, _mm512_cvttps_epi32(x)); }
};

}  // namespace
}  // namespace quern::ukernel
