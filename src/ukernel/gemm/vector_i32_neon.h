// int32 lanes beside the float32 ones, for integer tiles on NEON. For kernel files of that ISA only.
#pragma once

#include "ukernel/format.h"
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
  static Int TurnTopBits(Int x) {  // of bytes
    return vreinterpretq_s32_u8(veorq_u8(vreinterpretq_u8_s32(x), vdupq_n_u8(128)));
  }
  // The kBits bits of each lane from kShift on, as a float. Of a line's numbers the shifts and masks of whole bytes are
  // shared, and a byte comes out of its lane by a table of its own; of 2 bits there would be too many of both.
  template <int kShift, int kBits>
  static Reg Number(Int x) {
    if constexpr (kBits == 2) {
      const uint32x4_t lanes = vreinterpretq_u32_s32(x) >> vdupq_n_u32(kShift);
      return vcvtq_f32_u32(vandq_u32(lanes, vdupq_n_u32(3)));
    }
    uint8x16_t bytes = vreinterpretq_u8_s32(x);
    if constexpr (kShift % 8 != 0) bytes = vshrq_n_u8(bytes, kShift % 8);
    if constexpr (kShift % 8 + kBits < 8) bytes = vandq_u8(bytes, vdupq_n_u8((1 << kBits) - 1));
    constexpr uint32_t kByte = kShift / 8;
    const uint32x4_t from = vaddq_u32(vdupq_n_u32(0xffffff00u + kByte), uint32x4_t{0, 4, 8, 12});
    return vcvtq_f32_u32(vreinterpretq_u32_u8(vqtbl1q_u8(bytes, vreinterpretq_u8_u32(from))));
  }
  // Lanes of float32, float16 or bf16, and of uint8.
  static Reg LoadScale(const char* p, Format format) {
    if (format == Format::kF32) return vld1q_f32(reinterpret_cast<const float*>(p));
    uint16x4_t half;
    __builtin_memcpy(&half, p, sizeof(half));
    if (format == Format::kF16) return vcvt_f32_f16(vreinterpret_f16_u16(half));
    return vreinterpretq_f32_u32(vshll_n_u16(half, 16));
  }
  // f(format) for what scales are stored as, a constant in each call.
  template <class F>
  QUERN_INLINE static void WithScaleFormat(Format format, const F& f) {
    if (format == Format::kF32) return f(Format::kF32);
    if (format == Format::kF16) return f(Format::kF16);
    f(Format::kBf16);
  }
  static Int LoadZeros(const char* p) {
    uint32_t four;
    __builtin_memcpy(&four, p, 4);
    const uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(four));
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))));
  }
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
