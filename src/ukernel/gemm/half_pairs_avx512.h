// Pairs of 16-bit floats along K, which an instruction of AVX-512 multiplies as they lie. For kernel files only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "ukernel/isa.h"

namespace quern::ukernel {
namespace {

// How TileHalf's weights (tile_half.h) come to the loop.
struct HalfPairs {
  template <int>
  static __m512i Weights(const char* p) {
    return _mm512_loadu_si512(p);
  }
  template <int>
  static __m512i Lhs(const char* p) {
    int32_t pair;
    __builtin_memcpy(&pair, p, sizeof(pair));
    return _mm512_set1_epi32(pair);
  }
};

}  // namespace
}  // namespace quern::ukernel
