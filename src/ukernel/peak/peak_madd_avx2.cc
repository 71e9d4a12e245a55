// The int8 product peak of AVX2: VPMADDWD alone, on bytes that were widened before.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include <immintrin.h>

#include "ukernel/peak/peak_dot.h"
#include "ukernel/pin_order.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Instruction : DotRegister<__m256i> {
  static constexpr int kProducts = 16;
  // The sum of the products is the next left side: a chain, as an addition would be another instruction.
  static void Dot(Reg& acc, Reg, Reg b) {
    acc = _mm256_madd_epi16(acc, b);
    PinOrder(acc);  // keeps compilers from multiplying instead
  }
};
static constexpr PeakKernel kRows[] = {PeakDotRow<Instruction, 12>("madd")};
#else
static constexpr PeakKernel kRows[] = {{.isa = kIsa, .engine = "madd", .unit = "GOP/s", .multiplies = Format::kI8}};
#endif

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
