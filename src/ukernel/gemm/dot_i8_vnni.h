// int8 dot products by VPDPBUSD for tile_i8.h. For kernel files of AVX512-VNNI only.
#pragma once

#include "ukernel/gemm/tile_i8.h"
#include "ukernel/gemm/vector_i32_avx512.h"

namespace quern::ukernel {
namespace {

// The instruction's left side is unsigned: signed elements are staged with their top bit turned over, which adds 128.
template <bool kSignedLhs>
struct DotVnni {
  using V = IntVector;
  using Weights = __m512i;
  static constexpr bool kHoldsWeights = true;
  static constexpr int kShift = kSignedLhs ? 128 : 0;
  static constexpr int kLatency = 10;  // 5 cycles, two ports
  static constexpr size_t kGroupBytes = 4;

  static Weights LoadWeights(const char* p) { return _mm512_loadu_si512(p); }
  static __m512i LoadGroup(const char* p) {
    int32_t group;
    __builtin_memcpy(&group, p, 4);
    return _mm512_set1_epi32(group);
  }
  static __m512i Dot(__m512i acc, __m512i group, Weights w) { return _mm512_dpbusd_epi32(acc, group, w); }
  static void Stage(const char* from, size_t count, char* to) {
    const __m512i turn = _mm512_set1_epi8(kSignedLhs ? -128 : 0);
    for (; count >= 64; count -= 64, from += 64, to += 64) {
      _mm512_store_si512(to, _mm512_xor_si512(_mm512_loadu_si512(from), turn));
    }
    if (count) {
      const __mmask64 mask = (uint64_t{1} << count) - 1;
      _mm512_store_si512(to, _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, from), turn));
    }
  }
};

}  // namespace
}  // namespace quern::ukernel
