// Dot products of int8 rows by block-quantized weights with VPDPBUSD for tile_blocks.h: here the weights are the
// instruction's unsigned side, so that rows need no shift. For kernel files of AVX512-VNNI only.
#pragma once

#include "ukernel/gemm/dot_i8_vnni.h"
#include "ukernel/gemm/tile_blocks.h"

namespace quern::ukernel {
namespace {

struct DotBlocksVnni {
  using V = IntVector;
  using Weights = __m512i;
  static constexpr bool kHoldsWeights = true;
  static constexpr int kLatency = 10;
  static constexpr size_t kGroupBytes = 4;
  static constexpr size_t kStepBytes = 64;

  static __m512i LoadGroup(const char* p) { return DotVnni<true>::LoadGroup(p); }
  static __m512i Dot(__m512i acc, __m512i group, Weights w) { return _mm512_dpbusd_epi32(acc, w, group); }
  static __m512 LoadScale(const char* p, Format format) {
    if (format == Format::kF32) return _mm512_loadu_ps(p);
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    if (format == Format::kF16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }
  static __m512i LoadZeros(const char* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  // Zeros follow the elements: sums run over whole groups.
  static void Stage(const char* from, size_t count, char* to) {
    size_t i = 0;
    for (; i + 64 <= count; i += 64) _mm512_store_si512(to + i, _mm512_loadu_si512(from + i));
    const __mmask64 mask = (uint64_t{1} << (count - i)) - 1;
    _mm512_store_si512(to + i, _mm512_maskz_loadu_epi8(mask, from + i));
  }

  // Sums of 32 elements each over the 256 of a staged row.
  static void SumsOf32(const char* row, int32_t* out) {
    const __m512i turn = _mm512_set1_epi8(-128);
    const auto load = [&](int i) {  // unsigned sums of 8 bytes in 64-bit lanes
      return _mm512_sad_epu8(_mm512_xor_si512(_mm512_load_si512(row + 64 * i), turn), _mm512_setzero_si512());
    };
    const auto halves = [](__m512i x) {  // the sum of each 256-bit half in all its lanes, odd and even apart
      x = _mm512_add_epi32(x, _mm512_shuffle_epi32(x, _MM_PERM_BADC));
      return _mm512_add_epi32(x, _mm512_shuffle_i64x2(x, x, _MM_SHUFFLE(2, 3, 0, 1)));
    };
    const __m512i bias = _mm512_set1_epi32(32 * 128);
    QUERN_UNROLL for (int i = 0; i < 4; i += 2) {
      const __m512i both = _mm512_or_si512(load(i), _mm512_slli_epi64(load(i + 1), 32));
      const __m512i sums = _mm512_sub_epi32(halves(both), bias);
      const auto low = static_cast<uint64_t>(_mm_cvtsi128_si64(_mm512_castsi512_si128(sums)));
      const auto high = static_cast<uint64_t>(_mm_cvtsi128_si64(_mm512_extracti32x4_epi32(sums, 2)));
      out[2 * i] = static_cast<int32_t>(low);
      out[2 * i + 1] = static_cast<int32_t>(high);
      out[2 * i + 2] = static_cast<int32_t>(low >> 32);
      out[2 * i + 3] = static_cast<int32_t>(high >> 32);
    }
  }

  static void StageSums(char* row, size_t block, size_t count, int32_t* out) {
    for (size_t i = RoundUp(count + 1, 64); i < kStagedK; i += 64) _mm512_store_si512(row + i, _mm512_setzero_si512());
    if (block == 32) return SumsOf32(row, out);
    if (block % 32 == 0) {
      int32_t parts[8];
      SumsOf32(row, parts);
      for (size_t i = 0, b = 0; i < 8; i += block / 32, ++b) {
        out[b] = 0;
        for (size_t j = i; j < i + block / 32 && j < 8; ++j) out[b] += parts[j];
      }
      return;
    }
    for (size_t k = 0, b = 0; k < count; k += block, ++b) {
      out[b] = 0;
      for (size_t i = k; i < k + block && i < count; ++i) out[b] += static_cast<int8_t>(row[i]);
    }
  }
};

// Nibbles as they are stored: 8 k of a unit in a line.
struct DotU4Vnni : DotBlocksVnni {
  static constexpr int kStepGroups = 2;
  static constexpr int kZero = 8;
  static void LoadWeights(const char* p, Weights (&w)[2]) {
    const __m512i low = _mm512_set1_epi8(15), x = _mm512_loadu_si512(p);
    w[0] = _mm512_and_si512(x, low);
    w[1] = _mm512_and_si512(_mm512_srli_epi16(x, 4), low);
  }
};

// int8 with the top bit turned over: 128 too much.
struct DotI8Vnni : DotBlocksVnni {
  static constexpr int kStepGroups = 1;
  static constexpr int kZero = 128;
  static void LoadWeights(const char* p, Weights (&w)[1]) {
    w[0] = _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(-128));
  }
};

}  // namespace
}  // namespace quern::ukernel
