// The float16 multiply-add peak of AVX512-FP16.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include <immintrin.h>

#include "ukernel/peak/peak_dot.h"
#include "ukernel/pin_order.h"
#include "ukernel/vector_fp16.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Instruction : DotRegister<__m512i> {
  static constexpr int kProducts = 32;
  static void Dot(Reg& acc, Reg a, Reg b) {
    acc = FmaHalf(a, b, acc);
    PinOrder(acc);  // keeps compilers from multiplying instead
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
