// The float16 multiply-add peak of NEON.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include <arm_neon.h>

#include "ukernel/peak/peak_dot.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Instruction : DotRegister<float16x8_t> {
  static constexpr int kProducts = 8;
  static void Dot(Reg& acc, Reg a, Reg b) {
    acc = vfmaq_f16(acc, a, b);
    asm("" : "+w"(acc));  // keeps compilers from multiplying instead
  }
};
static constexpr PeakKernel kRows[] = {PeakFma16Row<Instruction, 16>()};
#else
static constexpr PeakKernel kRows[] = {
    {.isa = kIsa, .engine = "fma16", .unit = "GFLOP/s", .multiplies = Format::kF16, .half_sums = true}};
#endif

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
