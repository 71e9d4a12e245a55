// The float64 vector traits of tiles (tile_fma.h) on NEON. For kernel files of that ISA only.
#pragma once

#include <arm_neon.h>

#include <cstddef>

namespace quern::ukernel {
namespace {

struct DoubleVector {
  using Scalar = double;
  using Reg = float64x2_t;
  using Mask = size_t;  // lanes
  static constexpr int kLanes = 2, kUnit = 8, kLhsBlock = 2;
  static constexpr bool kCheapMasks = false;
  static constexpr bool kAsksAhead = false;
  static constexpr int kTileAhead = 0;
  static Reg Zero() { return vdupq_n_f64(0); }
  static Reg Load(const double* p) { return vld1q_f64(p); }
  static Reg LoadMask(const double* p, Mask m) { return m == 2 ? vld1q_f64(p) : vld1q_lane_f64(p, Zero(), 0); }
  static void Store(double* p, Reg x) { vst1q_f64(p, x); }
  static void StoreMask(double* p, Reg x, Mask m) { m == 2 ? vst1q_f64(p, x) : vst1q_lane_f64(p, x, 0); }
  static Mask MakeMask(size_t lanes) { return lanes; }
  static Reg Broadcast(const double* p) { return vld1q_dup_f64(p); }
  static Reg Fma(Reg a, Reg b, Reg c) { return vfmaq_f64(c, a, b); }
  template <int I>
  static Reg FmaLane(Reg c, Reg b, Reg x) {
    return vfmaq_laneq_f64(c, b, x, I);
  }
  static Reg Add(Reg a, Reg b) { return vaddq_f64(a, b); }
};

}  // namespace
}  // namespace quern::ukernel
