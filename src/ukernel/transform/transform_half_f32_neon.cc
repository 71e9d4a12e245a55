// float16 in units of SME to float32.
#include "ukernel/layouts_arm.h"
#include "ukernel/transform.h"

#if QUERN_ISA_HERE
#include <arm_neon.h>
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
// Lines of both sides have the columns of one k, a multiple of eight.
uint32_t Widen(const TransformArgs& a) {
  const size_t count = a.k * a.n_unit;
  for (size_t u = 0; u < a.units; ++u) {
    const auto* from = reinterpret_cast<const float16_t*>(static_cast<const char*>(a.src) + u * a.src_unit_stride);
    auto* to = reinterpret_cast<float*>(static_cast<char*>(a.dst) + u * a.dst_unit_stride);
    for (size_t i = 0; i < count; i += 8) {
      const float16x8_t x = vld1q_f16(from + i);
      vst1q_f32(to + i, vcvt_f32_f16(vget_low_f16(x)));
      vst1q_f32(to + i + 4, vcvt_high_f32_f16(x));
    }
  }
  return kPackFine;
}
static constexpr decltype(TransformKernel::run) kRun = Widen;
#else
static constexpr decltype(TransformKernel::run) kRun = nullptr;
#endif

static constexpr TransformKernel kRows[] = {
    {.isa = kIsa, .from = kF16SmeLines, .to = kF32Sme, .cycles_per_element = 0.2f, .run = kRun}};

}  // namespace

extern const KernelList<TransformKernel> QUERN_KERNEL_LIST;
constinit const KernelList<TransformKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]),
                                                              QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
