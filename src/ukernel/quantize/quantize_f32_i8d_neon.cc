// Dynamically quantized int8 from float32 on NEON, whose conversion rounds half away from zero.
#include "ukernel/layouts_arm.h"
#include "ukernel/quantize/i8d_rows.h"

#if QUERN_ISA_HERE
#include <arm_neon.h>
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct NeonLoops {
  static constexpr size_t kStep = 16;

  static void Range(const float* x, size_t count, float& lo, float& hi) {
    float32x4_t low[4], high[4];
    for (int j = 0; j < 4; ++j) low[j] = high[j] = vdupq_n_f32(0);
    size_t i = 0;
    for (; i + kStep <= count; i += kStep) {
      for (int j = 0; j < 4; ++j) {  // by comparison: NaN is left out
        const float32x4_t y = vld1q_f32(x + i + 4 * j);
        low[j] = vbslq_f32(vcltq_f32(y, low[j]), y, low[j]);
        high[j] = vbslq_f32(vcgtq_f32(y, high[j]), y, high[j]);
      }
    }
    const float least = vminvq_f32(vminq_f32(vminq_f32(low[0], low[1]), vminq_f32(low[2], low[3])));
    const float most = vmaxvq_f32(vmaxq_f32(vmaxq_f32(high[0], high[1]), vmaxq_f32(high[2], high[3])));
    lo = least < lo ? least : lo;
    hi = most > hi ? most : hi;
    for (; i < count; ++i) {
      lo = x[i] < lo ? x[i] : lo;
      hi = x[i] > hi ? x[i] : hi;
    }
  }

  static int32x4_t Four(float32x4_t x, float scale, int32x4_t zero_point) {
    const float32x4_t low = vdupq_n_f32(-512.0f), y = vmulq_n_f32(x, scale);
    const float32x4_t bounded = vbslq_f32(vcgtq_f32(y, low), y, low);  // NaN becomes the lowest value
    return vqaddq_s32(vcvtaq_s32_f32(bounded), zero_point);
  }
  static int8x16_t Sixteen(const float* x, float scale, int32x4_t zero_point) {
    const auto eight = [&](const float* p) {
      return vcombine_s16(vqmovn_s32(Four(vld1q_f32(p), scale, zero_point)),
                          vqmovn_s32(Four(vld1q_f32(p + 4), scale, zero_point)));
    };
    return vcombine_s8(vqmovn_s16(eight(x)), vqmovn_s16(eight(x + 8)));
  }
  static void Quantize(const float* x, size_t count, float scale, int zero_point, int8_t* q) {
    const int32x4_t zero = vdupq_n_s32(zero_point);
    for (; count >= kStep; count -= kStep, x += kStep, q += kStep) vst1q_s8(q, Sixteen(x, scale, zero));
    if (count) {
      float rest[kStep] = {};
      int8_t out[kStep];
      for (size_t i = 0; i < count; ++i) rest[i] = x[i];
      vst1q_s8(out, Sixteen(rest, scale, zero));
      for (size_t i = 0; i < count; ++i) q[i] = out[i];
    }
  }
};
static constexpr auto kRun = PackI8d<NeonLoops>;
#else
static constexpr decltype(LhsPackKernel::run) kRun = nullptr;
#endif

static constexpr LhsPackKernel kRows[] = {
    I8dRow(kI8dRows, 0.9f, kRun),
    I8dRow(kI8dPairs, 1.0f, kRun),
    I8dRow(I8SmePanels(Format::kI8d), 1.2f, kRun),
    I8dRow(I8SmeBlockPanels(Format::kI8d), 1.2f, kRun),
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
