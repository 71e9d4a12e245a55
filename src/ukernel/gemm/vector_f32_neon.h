// The float32 vector traits of tiles (tile_fma.h) on NEON. For kernel files of that ISA only.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

namespace quern::ukernel {
namespace {

struct Vector {
  using Scalar = float;
  using Reg = float32x4_t;
  using Mask = size_t;  // lanes
  static constexpr int kLanes = 4, kUnit = 8, kLhsBlock = 4;
  static constexpr bool kCheapMasks = false;
  static constexpr bool kAsksAhead = false;
  static constexpr int kTileAhead = 0;
  static constexpr int kPrefetch = 0;
  static constexpr int kFewRows = 0;
  static Reg Zero() { return vdupq_n_f32(0); }
  static Reg Set1(float x) { return vdupq_n_f32(x); }
  static Reg Load(const float* p) { return vld1q_f32(p); }
  static Reg LoadMask(const float* p, Mask m) {
    if (m == 4) return vld1q_f32(p);
    Reg x = vld1q_lane_f32(p, Zero(), 0);
    if (m > 1) x = vld1q_lane_f32(p + 1, x, 1);
    if (m > 2) x = vld1q_lane_f32(p + 2, x, 2);
    return x;
  }
  static void Store(float* p, Reg x) { vst1q_f32(p, x); }
  static void StoreMask(float* p, Reg x, Mask m) {
    if (m == 4) return vst1q_f32(p, x);
    vst1q_lane_f32(p, x, 0);
    if (m > 1) vst1q_lane_f32(p + 1, x, 1);
    if (m > 2) vst1q_lane_f32(p + 2, x, 2);
  }
  static Mask MakeMask(size_t lanes) { return lanes; }
  static Reg Broadcast(const float* p) { return vld1q_dup_f32(p); }
  static Reg Fma(Reg a, Reg b, Reg c) { return vfmaq_f32(c, a, b); }
  template <int I>
  static Reg FmaLane(Reg c, Reg b, Reg x) {
    return vfmaq_laneq_f32(c, b, x, I);
  }
  static Reg Add(Reg a, Reg b) { return vaddq_f32(a, b); }
  static Reg Sub(Reg a, Reg b) { return vsubq_f32(a, b); }
  static Reg Mul(Reg a, Reg b) { return vmulq_f32(a, b); }
  static Reg Div(Reg a, Reg b) { return vdivq_f32(a, b); }
  static Reg Min(Reg a, Reg b) { return vminq_f32(a, b); }  // NaN stays
  static Reg Max(Reg a, Reg b) { return vmaxq_f32(a, b); }
};

}  // namespace
}  // namespace quern::ukernel
