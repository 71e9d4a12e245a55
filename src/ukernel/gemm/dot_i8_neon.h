// int8 dot products on NEON without its dot product instructions, for tile_i8_lanes.h. For kernel files only.
#pragma once

#include "ukernel/gemm/tile_i8_lanes.h"
#include "ukernel/gemm/vector_i32_neon.h"

namespace quern::ukernel {
namespace {

// Products of 4 k of two columns fit 16 bits; pairs of them are added to int32, so that a column has two sums.
template <bool kTurn>
struct DotNeon {
  using V = IntVector;
  using X = int8x16_t;
  static constexpr int kGroup = 4, kRows = 1, kWeights = 2, kSums = 2;
  static constexpr int kLatency = 8;
  static constexpr bool kTurned = kTurn, kPairs = false;

  // Halves apart: compilers move the upper half of a vector instead of multiplying it.
  static int8x8x2_t LoadWeights(const char* p) {
    const auto* w = reinterpret_cast<const int8_t*>(p);
    return {vld1_s8(w), vld1_s8(w + 8)};
  }
  static X Load(const char* const* p, int) {
    const int8x16_t x = vld1q_s8(reinterpret_cast<const int8_t*>(p[0]));
    return kTurn ? veorq_s8(x, vdupq_n_s8(-128)) : x;
  }
  // g is known once loops are unrolled.
  QUERN_INLINE static int8x8_t Group(X x, int g) {
    const int32x4_t groups = vreinterpretq_s32_s8(x);
    switch (g) {
      case 0:
        return vreinterpret_s8_s32(vdup_laneq_s32(groups, 0));
      case 1:
        return vreinterpret_s8_s32(vdup_laneq_s32(groups, 1));
      case 2:
        return vreinterpret_s8_s32(vdup_laneq_s32(groups, 2));
      default:
        return vreinterpret_s8_s32(vdup_laneq_s32(groups, 3));
    }
  }
  static void Dot(int32x4_t* acc, X x, int8x8x2_t w, int g) {
    const int8x8_t y = Group(x, g);
    acc[0] = vpadalq_s16(acc[0], vmull_s8(w.val[0], y));
    acc[1] = vpadalq_s16(acc[1], vmull_s8(w.val[1], y));
  }
  static int32x4_t Reduce(const int32x4_t* acc, int) { return vpaddq_s32(acc[0], acc[1]); }
};

}  // namespace
}  // namespace quern::ukernel
