// What the 256-bit byte dot products have in common for tile_i8.h. For kernel files of AVX-VNNI and AVX-VNNI-INT8 only.
#pragma once

#include "ukernel/gemm/last_bytes.h"
#include "ukernel/gemm/tile_i8.h"
#include "ukernel/gemm/vector_i32_avx2.h"
#include "ukernel/vnni_vex.h"

namespace quern::ukernel {
namespace {

// kAdded: what staging adds to an element: 0, or 128 by turning over its top bit.
template <int kAdded>
struct DotVex {
  using V = IntVector;
  using Weights = __m256i;
  static constexpr bool kHoldsWeights = true;
  static constexpr int kShift = kAdded;
  static constexpr int kLatency = 10;  // 5 cycles, two ports
  static constexpr size_t kGroupBytes = 4;

  static Weights LoadWeights(const char* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static __m256i LoadGroup(const char* p) {
    int32_t group;
    __builtin_memcpy(&group, p, 4);
    return _mm256_set1_epi32(group);
  }
  static void Stage(const char* from, size_t count, char* to) {
    const __m256i turn = _mm256_set1_epi8(kAdded ? -128 : 0);
    const size_t whole = count;
    for (; count >= 32; count -= 32, from += 32, to += 32) {
      const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm256_xor_si256(x, turn));
    }
    const auto put = [&](__m128i x) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_xor_si128(x, _mm256_castsi256_si128(turn)));
    };
    if (count >= 16) {
      put(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
      count -= 16, from += 16, to += 16;
    }
    if (count) put(LastBytes(from + count, count, whole));
  }
};

}  // namespace
}  // namespace quern::ukernel
