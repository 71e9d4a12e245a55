// int32 lanes beside the float32 ones, for integer tiles on AVX2. For kernel files of that ISA only.
#pragma once

#include "ukernel/format.h"
#include "ukernel/gemm/byte_range.h"
#include "ukernel/gemm/vector_f32_avx2.h"

namespace quern::ukernel {
namespace {

struct IntVector : Vector {
  static constexpr int kPrefetch = 8192;  // bytes ahead in all units: a few rows read weights as fast as memory gives
  using Int = __m256i;
  static Int ZeroInt() { return _mm256_setzero_si256(); }
  static Int Set1Int(int32_t x) { return _mm256_set1_epi32(x); }
  static Int LoadInt(const int32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static Int LoadMaskInt(const int32_t* p, Mask m) { return _mm256_maskload_epi32(p, Bits(m)); }
  static void StoreInt(int32_t* p, Int x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x); }
  static void StoreMaskInt(int32_t* p, Int x, Mask m) {
    StoreMask(reinterpret_cast<float*>(p), _mm256_castsi256_ps(x), m);
  }
  static Int AddInt(Int a, Int b) { return _mm256_add_epi32(a, b); }
  static Int MulInt(Int a, Int b) { return _mm256_mullo_epi32(a, b); }
  static Int ShiftLeft8(Int x) { return _mm256_slli_epi32(x, 8); }
  static Reg ToFloat(Int x) { return _mm256_cvtepi32_ps(x); }
  static Reg Round(Reg x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static Int TurnTopBits(Int x) { return _mm256_xor_si256(x, _mm256_set1_epi8(-128)); }  // of bytes
  static Int SubBytes(Int a, Int b) { return _mm256_sub_epi8(a, b); }
  // Lanes of float32, float16 or bf16, and of uint8.
  static Reg LoadScale(const char* p, Format format) {
    if (format == Format::kF32) return _mm256_loadu_ps(reinterpret_cast<const float*>(p));
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    if (format == Format::kF16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  static Int LoadZeros(const char* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  // Beyond what 32 bits hold, the least number: so that this stands for the others, and for NaN, alone.
  static Int RoundToByte(Reg x) { return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_set1_ps(1 << 24), x)); }
  // Two rows of 16 integers.
  static void StoreByteRows(void* p, void* q, Int p0, Int p1, Int q0, Int q1, const ByteRange& range) {
    const __m256i zero = _mm256_set1_epi16(static_cast<int16_t>(range.zero));
    const auto words = [&](Int a, Int b) { return _mm256_adds_epi16(_mm256_packs_epi32(a, b), zero); };
    // Fours of lanes: p0 p1 q0 q1 of the low halves, then of the high ones.
    __m256i bytes = _mm256_packus_epi16(words(p0, p1), words(q0, q1));
    bytes = _mm256_max_epu8(bytes, _mm256_set1_epi8(static_cast<char>(range.low)));
    bytes = _mm256_min_epu8(bytes, _mm256_set1_epi8(static_cast<char>(range.high)));
    bytes = _mm256_xor_si256(bytes, _mm256_set1_epi8(static_cast<char>(range.turn)));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_castsi256_si128(bytes));
    _mm_storeu_si128(static_cast<__m128i*>(q), _mm256_extracti128_si256(bytes, 1));
  }
};

}  // namespace
}  // namespace quern::ukernel
