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
  static void AddRow(int32x4_t* acc, X x, int8_t by) { *acc = vdotq_s32(*acc, x, vdupq_n_s8(by)); }
  static int32x4_t RowSum(const int32x4_t* acc, int) { return vdupq_n_s32(vaddvq_s32(*acc)); }

  // For tile_blocks_passes.h.
  static constexpr int kTogether = 2;
  static constexpr int kSlots[kWeights] = {0, 1};
  template <int kLoads>
  QUERN_INLINE static void LoadPiece(const char*& p, ptrdiff_t stride, X (&x)[kLoads]) {
    const auto* from = reinterpret_cast<const int8_t*>(p);
    if constexpr (kLoads == 2) {  // one instruction, which moves on as well
      const int8x16x2_t both = vld1q_s8_x2(from);
      x[0] = both.val[0];
      x[1] = both.val[1];
    } else {
      x[0] = vld1q_s8(from);
    }
    p += stride;
  }
  template <int kLoads>
  QUERN_INLINE static void LoadOdd(const char*& p, X (&x)[kLoads]) {
    LoadPiece(p, 0, x);
  }
  static void ByColumns(float32x4_t a, float32x4_t b, float32x4_t (&out)[kWeights]) {
    out[0] = a;
    out[1] = b;
  }
  static float32x4_t Column(const float* p, int i) { return vld1q_f32(p + 4 * i); }
  QUERN_INLINE static float32x4_t ByRows(const char*& p, ptrdiff_t stride, bool) {
    const float32x4_t x = vld1q_dup_f32(reinterpret_cast<const float*>(p));
    p += stride;
    return x;
  }
  // A byte of each column to the bytes of its weights.
  static void SpreadZeros(const char* p, uint8x16_t (&out)[kWeights]) {
    const uint8x8_t x = vld1_u8(reinterpret_cast<const uint8_t*>(p));
    const uint16x8_t twice = vreinterpretq_u16_u8(vzip1q_u8(vcombine_u8(x, x), vcombine_u8(x, x)));
    out[0] = vreinterpretq_u8_u16(vzip1q_u16(twice, twice));
    out[1] = vreinterpretq_u8_u16(vzip2q_u16(twice, twice));
  }
  static void Turn(int32_t*) {}
  static int32x4_t AddRows(int32x4_t total, X x) { return vdotq_s32(total, x, vdupq_n_s8(1)); }
  static void StoreSums(int32_t* p, int32x4_t total) { *p = vaddvq_s32(total); }
};

}  // namespace
}  // namespace quern::ukernel
