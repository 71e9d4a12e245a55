// The peak of NEON's multiply-add of float16 into float32.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include <arm_neon.h>

#include "ukernel/peak/peak_dot.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Instruction : DotRegister<float32x4_t> {
  static constexpr int kProducts = 4;
  static void Dot(Reg& acc, Reg a, Reg b) {
    acc = vfmlalq_low_f16(acc, vreinterpretq_f16_f32(a), vreinterpretq_f16_f32(b));
    asm("" : "+w"(acc));  // keeps compilers from multiplying instead
  }
};
static constexpr PeakKernel kRows[] = {PeakFloatRow<Instruction, 16>("fmlal", Format::kF16)};
#else
static constexpr PeakKernel kRows[] = {{.isa = kIsa, .engine = "fmlal", .unit = "GFLOP/s", .multiplies = Format::kF16}};
#endif

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
