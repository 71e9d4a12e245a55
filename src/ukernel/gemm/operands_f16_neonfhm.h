// float16 by float16 for the float32 tile (tile_fma.h) with FMLAL, which widens as it multiplies: the bits of a
// conversion and a fused multiply-add. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/operands_f16_neon.h"

namespace quern::ukernel {
namespace {

// kK: k of a column that lie together, 1 or 2 (units of SME).
template <int kK>
struct WidenF16 {
  using Lhs = float16_t;
  using Rhs = float16_t;
  using Reg = float32x4_t;
  static constexpr int kGroup = kK, kLhsBlock = 8;
  static float16x8_t LoadLhs(const float16_t* p) { return vld1q_f16(p); }
  // All 8 columns of the unit, whatever the part.
  template <int I>
  static float16x8_t LoadRhs(const float16_t* p, int) {
    if constexpr (kK == 1) return vld1q_f16(p);
    const float16x8_t low = vld1q_f16(p), high = vld1q_f16(p + 8);
    return I ? vuzp2q_f16(low, high) : vuzp1q_f16(low, high);
  }
  template <int I>
  static Reg FmaLane(Reg acc, float16x8_t w, int part, float16x8_t x) {
    return part ? vfmlalq_laneq_high_f16(acc, w, x, I) : vfmlalq_laneq_low_f16(acc, w, x, I);
  }
  template <int I>
  static Reg Broadcast(const float16_t* p) {
    return vdupq_n_f32(static_cast<float>(*p));
  }
  template <int I>
  static Reg LoadFloats(const float16_t* p, int part) {
    return Halves(LoadRhs<I>(p, part), part);
  }
  static Reg Fma(Reg x, Reg w, Reg acc) { return vfmaq_f32(acc, w, x); }
};

}  // namespace
}  // namespace quern::ukernel
