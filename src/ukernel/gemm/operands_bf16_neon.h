// bf16 in pairs along K (units of SME), converted for the float32 tile (tile_fma.h) on NEON. For kernel files of that
// ISA only.
#pragma once

#include "ukernel/gemm/vector_f32_neon.h"

namespace quern::ukernel {
namespace {

struct PairsBf16 {
  using Lhs = uint16_t;
  using Rhs = uint16_t;
  using Reg = float32x4_t;
  static constexpr int kGroup = 2, kLhsBlock = 8;
  static float32x4x2_t LoadLhs(const uint16_t* p) {
    const uint16x8_t x = vld1q_u16(p);
    return {{vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(x), 16)), vreinterpretq_f32_u32(vshll_high_n_u16(x, 16))}};
  }
  template <int I>
  static Reg LoadRhs(const uint16_t* p, int part) {
    const uint32x4_t pairs = vreinterpretq_u32_u16(vld1q_u16(p + part * 8));
    return vreinterpretq_f32_u32(I ? vandq_u32(pairs, vdupq_n_u32(0xffff0000u)) : vshlq_n_u32(pairs, 16));
  }
  template <int I>
  static Reg FmaLane(Reg acc, Reg w, int, const float32x4x2_t& x) {
    return vfmaq_laneq_f32(acc, w, x.val[I / 4], I % 4);
  }
  template <int I>
  static Reg Broadcast(const uint16_t* p) {
    return vreinterpretq_f32_u32(vdupq_n_u32(static_cast<uint32_t>(*p) << 16));
  }
  template <int I>
  static Reg LoadFloats(const uint16_t* p, int part) {
    return LoadRhs<I>(p, part);
  }
  static Reg Fma(Reg x, Reg w, Reg acc) { return vfmaq_f32(acc, w, x); }
};

}  // namespace
}  // namespace quern::ukernel
