// int32 lanes beside the float32 ones, for integer tiles on AVX-512. For kernel files of that ISA only.
#pragma once

#include "ukernel/format.h"
#include "ukernel/gemm/vector_f32_avx512.h"

namespace quern::ukernel {
namespace {

struct IntVector : Vector {
  static constexpr int kPrefetch = 8192;  // bytes ahead in all units: a few rows read weights as fast as memory gives
  using Int = __m512i;
  static Int ZeroInt() { return _mm512_setzero_si512(); }
  static Int Set1Int(int32_t x) { return _mm512_set1_epi32(x); }
  static Int LoadInt(const int32_t* p) { return _mm512_loadu_si512(p); }
  static Int LoadMaskInt(const int32_t* p, Mask m) { return _mm512_maskz_loadu_epi32(m, p); }
  static void StoreInt(int32_t* p, Int x) { _mm512_storeu_si512(p, x); }
  static void StoreMaskInt(int32_t* p, Int x, Mask m) { _mm512_mask_storeu_epi32(p, m, x); }
  static Int AddInt(Int a, Int b) { return _mm512_add_epi32(a, b); }
  static Int SubInt(Int a, Int b) { return _mm512_sub_epi32(a, b); }
  static Int ShiftLeft8(Int x) { return _mm512_slli_epi32(x, 8); }
  static Int MulInt(Int a, Int b) { return _mm512_mullo_epi32(a, b); }
  static Reg ToFloat(Int x) { return _mm512_cvtepi32_ps(x); }
  static Reg Round(Reg x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static Int TurnTopBits(Int x) { return _mm512_xor_si512(x, _mm512_set1_epi8(-128)); }  // of bytes
  static Int SubBytes(Int a, Int b) { return _mm512_sub_epi8(a, b); }
  // The kBits bits of each lane from kShift on, as a float.
  template <int kShift, int kBits>
  static Reg Number(Int x) {
    const Int low = kShift ? _mm512_srli_epi32(x, kShift) : x;
    if constexpr (kBits == 4) {  // a permutation looks at no more bits
      return _mm512_permutexvar_ps(low, _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    }
    return ToFloat(_mm512_and_si512(low, Set1Int((1 << kBits) - 1)));
  }
  // Pairs of bf16 of numbers that are such.
  static Int PairBf16(Reg even, Reg odd) {
    return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even), 16), _mm512_castps_si512(odd));
  }
  // Lanes of float32, float16 or bf16, and of uint8.
  static Reg LoadScale(const char* p, Format format) {
    if (format == Format::kF32) return _mm512_loadu_ps(p);
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    if (format == Format::kF16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }
  static Int LoadZeros(const char* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  // Integers in value that fit 8 bits, one byte per lane.
  static void StoreBytes(void* p, Reg x, Mask m) { _mm512_mask_cvtepi32_storeu_epi8(p, m, _mm512_cvttps_epi32(x)); }
};

}  // namespace
}  // namespace quern::ukernel
