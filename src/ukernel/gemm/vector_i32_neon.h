// int32 lanes beside the float32 ones, for integer tiles on NEON. For kernel files of that ISA only.
#pragma once

#include "ukernel/gemm/vector_f32_neon.h"

namespace quern::ukernel {
namespace {

struct IntVector : Vector {
  using Int = int32x4_t;
  static Int ZeroInt() { return vdupq_n_s32(0); }
  static Int Set1Int(int32_t x) { return vdupq_n_s32(x); }
  static Int LoadInt(const int32_t* p) { return vld1q_s32(p); }
  static Int LoadMaskInt(const int32_t* p, Mask m) {
    return vreinterpretq_s32_f32(LoadMask(reinterpret_cast<const float*>(p), m));
  }
  static void StoreInt(int32_t* p, Int x) { vst1q_s32(p, x); }
  static void StoreMaskInt(int32_t* p, Int x, Mask m) {
    StoreMask(reinterpret_cast<float*>(p), vreinterpretq_f32_s32(x), m);
  }
  static Int AddInt(Int a, Int b) { return vaddq_s32(a, b); }
  static Int MulInt(Int a, Int b) { return vmulq_s32(a, b); }
  static Reg ToFloat(Int x) { return vcvtq_f32_s32(x); }
  static Reg Round(Reg x) { return vrndnq_f32(x); }
  // Of a NaN in `a`, `b`; one in `b` stays.
  static Reg Min(Reg a, Reg b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  static Reg Max(Reg a, Reg b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  // Integers in value that fit 8 bits, one byte per lane.
  static void StoreBytes(void* p, Reg x, Mask m) {
    const int16x4_t halves = vmovn_s32(vcvtq_s32_f32(x));
    uint32_t bytes = vget_lane_u32(vreinterpret_u32_s8(vmovn_s16(vcombine_s16(halves, halves))), 0);
    if (m == 4) {
      __builtin_memcpy(p, &bytes, 4);
      return;
    }
    for (size_t i = 0; i < m; ++i, bytes >>= 8) static_cast<uint8_t*>(p)[i] = static_cast<uint8_t>(bytes);
  }
};

}  // namespace
}  // namespace quern::ukernel
