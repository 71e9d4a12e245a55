// Dot products of int8 rows by block-quantized weights on any target, for tile_blocks.h: both sides widened to 16 bits,
// the even and the odd k of each group. For kernel files only.
#pragma once

#include "ukernel/gemm/dot_i8_portable.h"
#include "ukernel/gemm/tile_blocks.h"

namespace quern::ukernel {
namespace {

struct EvenOdd {
  Int16x8 even, odd;
};

template <Format element>
struct BlockDot {
  using V = IntVector;
  using Weights = EvenOdd;
  using Sum = V::Int;
  static constexpr Format kElement = element;
  static constexpr int kZero = BlockZeroOf(element);
  static constexpr int kVectors = 1, kRows = 1, kGroups = 4, kFewRows = 0, kChains = 1;
  static constexpr bool kSeeds = true, kCentered = false;

  template <int kShift, int kBits>
  static V::Int Field(V::Int x) {
    return x >> kShift & 0x01010101u * ((1u << kBits) - 1);
  }
  template <int NG>
  QUERN_INLINE static void Load(const char* p, Weights (&w)[NG]) {
    V::Int x[NG];
    LoadWeightBytes<BlockDot>(p, x);
    QUERN_UNROLL for (int i = 0; i < NG; ++i) {
      w[i] = {(Int16x8)(x[i] & 0x00ff00ffu), (Int16x8)(x[i] >> 8 & 0x00ff00ffu)};
    }
  }
  static EvenOdd Group(const char* p) {
    typedef uint16_t Bits __attribute__((vector_size(16)));
    int32_t group;
    __builtin_memcpy(&group, p, 4);
    const V::Int x = V::Set1Int(group);
    return {(Int16x8)((Bits)x << 8) >> 8, (Int16x8)x >> 8};
  }
  static Sum Dot(Sum sum, const EvenOdd& group, const Weights& w) {
    return sum + MultiplyAddPairs(w.even, group.even) + MultiplyAddPairs(w.odd, group.odd);
  }
  static V::Int Total(Sum sum) { return sum; }
  static V::Int MulZero(V::Int zeros, V::Int sum) { return V::MulInt(zeros, sum); }
  static void SumPieces(const char* row, size_t count, size_t piece, int32_t* out) {
    for (size_t i = 0; i < count; ++i, row += piece) {
      out[i] = 0;
      for (size_t k = 0; k < piece; ++k) out[i] += static_cast<int8_t>(row[k]);
    }
  }
};

}  // namespace
}  // namespace quern::ukernel
