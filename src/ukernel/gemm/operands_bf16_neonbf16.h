// bf16 by bf16 in pairs along K (units of SME) for the float32 tile (tile_f32.h) with BFDOT; a last odd k by a
// multiply-add. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/vector_f32_neon.h"

namespace quern::ukernel {
namespace {

struct PairsBf16 {
  using Lhs = bfloat16_t;
  using Rhs = bfloat16_t;
  using Reg = float32x4_t;
  static constexpr int kGroup = 2, kLhsBlock = 8;
  static bfloat16x8_t LoadLhs(const bfloat16_t* p) { return vld1q_bf16(p); }
  template <int I>
  static bfloat16x8_t LoadRhs(const bfloat16_t* p, int part) {
    return vld1q_bf16(p + part * 8);
  }
  // A pair at its first k.
  template <int I>
  static Reg FmaLane(Reg acc, bfloat16x8_t w, int, bfloat16x8_t x) {
    if constexpr (I % 2 == 0) return vbfdotq_laneq_f32(acc, w, x, I / 2);
    return acc;
  }
  template <int I>
  static Reg Broadcast(const bfloat16_t* p) {
    return vdupq_n_f32(vcvtah_f32_bf16(*p));
  }
  template <int I>
  static Reg LoadFloats(const bfloat16_t* p, int part) {
    const uint32x4_t pairs = vreinterpretq_u32_bf16(vld1q_bf16(p + part * 8));
    return vreinterpretq_f32_u32(I ? vandq_u32(pairs, vdupq_n_u32(0xffff0000u)) : vshlq_n_u32(pairs, 16));
  }
  static Reg Fma(Reg x, Reg w, Reg acc) { return vfmaq_f32(acc, w, x); }
};

}  // namespace
}  // namespace quern::ukernel
