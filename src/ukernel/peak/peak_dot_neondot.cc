// The int8 dot-product peak of NEON.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include <arm_neon.h>

#include "ukernel/peak/peak_dot.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Instruction {
  using Reg = int32x4_t;
  static Reg Load(const uint16_t* p) { return vld1q_s32(reinterpret_cast<const int32_t*>(p)); }
  static void Store(uint16_t* p, Reg x) { vst1q_s32(reinterpret_cast<int32_t*>(p), x); }
  static void Dot(Reg& acc, Reg a, Reg b) {
    acc = vdotq_s32(acc, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
    asm("" : "+w"(acc));  // keeps compilers from multiplying instead
  }
};
static constexpr auto kRun = RunPeakDot<Instruction, 16, 0xffff>;
#else
static constexpr uint64_t (*kRun)(size_t, const void*) = nullptr;
#endif

static constexpr PeakKernel kRows[] = {{.isa = kIsa,
                                        .engine = "dot",
                                        .unit = "GOP/s",
                                        .multiplies = Format::kI8,
                                        .operations = 2.0 * 16 * 16,
                                        .run = kRun}};

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
