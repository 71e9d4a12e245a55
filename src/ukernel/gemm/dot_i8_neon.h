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
  struct X {
    const char* p;
  };
  static constexpr int kGroup = 4, kRows = 1, kWeights = 2, kSums = 2;
  static constexpr int kLatency = 8;
  static constexpr bool kTurned = kTurn;

  static X Load(const char* const* p) { return {p[0]}; }
  static void Dot(int32x4_t* acc, X x, int8x16_t w, int g) {
    int32_t group;
    __builtin_memcpy(&group, x.p + 4 * g, 4);
    int8x8_t y = vreinterpret_s8_s32(vdup_n_s32(group));
    if (kTurn) y = veor_s8(y, vdup_n_s8(-128));
    acc[0] = vpadalq_s16(acc[0], vmull_s8(vget_low_s8(w), y));
    acc[1] = vpadalq_s16(acc[1], vmull_high_s8(w, vcombine_s8(y, y)));
  }
  static int32x4_t Reduce(const int32x4_t* acc, int) { return vpaddq_s32(acc[0], acc[1]); }
};

}  // namespace
}  // namespace quern::ukernel
