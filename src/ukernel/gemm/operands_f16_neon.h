// float16 weights, and rows of float32 or float16, converted for the float32 tile (tile_fma.h) on NEON. For kernel
// files of that ISA only.
#pragma once

#include "ukernel/gemm/vector_f32_neon.h"

namespace quern::ukernel {
namespace {

inline float32x4_t Halves(float16x8_t x, int part) {
  return part ? vcvt_high_f32_f16(x) : vcvt_f32_f16(vget_low_f16(x));
}

template <class T>
struct ConvertF16 {
  using Lhs = T;
  using Rhs = float16_t;
  using Reg = float32x4_t;
  static constexpr int kGroup = 1, kLhsBlock = 4;
  static Reg LoadLhs(const float* p) { return vld1q_f32(p); }
  static Reg LoadLhs(const float16_t* p) { return vcvt_f32_f16(vld1_f16(p)); }
  template <int I>
  static Reg LoadRhs(const float16_t* p, int part) {
    return Halves(vld1q_f16(p), part);
  }
  template <int I>
  static Reg FmaLane(Reg acc, Reg w, int, Reg x) {
    return vfmaq_laneq_f32(acc, w, x, I);
  }
  template <int I>
  static Reg Broadcast(const T* p) {
    return vdupq_n_f32(static_cast<float>(*p));
  }
  template <int I>
  static Reg LoadFloats(const float16_t* p, int part) {
    return LoadRhs<I>(p, part);
  }
  static Reg Fma(Reg x, Reg w, Reg acc) { return vfmaq_f32(acc, w, x); }
};

}  // namespace
}  // namespace quern::ukernel
