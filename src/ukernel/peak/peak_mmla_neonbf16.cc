// The bfloat16 matrix-product peak of NEON.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include <arm_neon.h>

#include "ukernel/peak/peak_dot.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Instruction {
  using Reg = float32x4_t;
  static Reg Load(const uint16_t* p) { return vld1q_f32(reinterpret_cast<const float*>(p)); }
  static void Store(uint16_t* p, Reg x) { vst1q_f32(reinterpret_cast<float*>(p), x); }
  static void Dot(Reg& acc, Reg a, Reg b) {
    acc = vbfmmlaq_f32(acc, vreinterpretq_bf16_f32(a), vreinterpretq_bf16_f32(b));
    asm("" : "+w"(acc));  // keeps compilers from multiplying instead
  }
};
static constexpr auto kRun = RunPeakDot<Instruction, 16, kFloatMask>;
#else
static constexpr uint64_t (*kRun)(size_t, const void*) = nullptr;
#endif

static constexpr PeakKernel kRows[] = {{.isa = kIsa,
                                        .engine = "mmla",
                                        .unit = "GFLOP/s",
                                        .multiplies = Format::kBf16,
                                        .operations = 2.0 * 16 * 16,
                                        .run = kRun}};

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
