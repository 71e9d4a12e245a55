// int8 dot products by SDOT for tile_i8_lanes.h. For kernel files of Arm's dot product instructions only.
#pragma once

#include "ukernel/gemm/tile_i8_lanes.h"
#include "ukernel/gemm/vector_i32_neon.h"

namespace quern::ukernel {
namespace {

template <bool kTurn>
struct DotNeonDot {
  using V = IntVector;
  using X = int8x16_t;
  static constexpr int kGroup = 4, kRows = 1, kWeights = 2, kSums = 1;
  static constexpr int kLatency = 16;  // 4 cycles, up to four units
  static constexpr bool kTurned = kTurn, kPairs = false;

  static int8x16_t LoadWeights(const char* p) { return vld1q_s8(reinterpret_cast<const int8_t*>(p)); }
  static X Load(const char* const* p, int) {
    const int8x16_t x = vld1q_s8(reinterpret_cast<const int8_t*>(p[0]));
    return kTurn ? veorq_s8(x, vdupq_n_s8(-128)) : x;
  }
  // g is known once loops are unrolled.
  QUERN_INLINE static void Dot(int32x4_t* acc, X x, int8x16_t w, int g) {
    switch (g) {
      case 0:
        *acc = vdotq_laneq_s32(*acc, w, x, 0);
        break;
      case 1:
        *acc = vdotq_laneq_s32(*acc, w, x, 1);
        break;
      case 2:
        *acc = vdotq_laneq_s32(*acc, w, x, 2);
        break;
      default:
        *acc = vdotq_laneq_s32(*acc, w, x, 3);
    }
  }
  static int32x4_t Reduce(const int32x4_t* acc, int) { return *acc; }
  static void AddRow(int32x4_t* acc, X x) { *acc = vdotq_s32(*acc, x, vdupq_n_s8(1)); }
  static int32x4_t RowSum(const int32x4_t* acc, int) { return vdupq_n_s32(vaddvq_s32(*acc)); }
};

}  // namespace
}  // namespace quern::ukernel
