// The int8 dot-product peak of AVX512-VNNI.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include <immintrin.h>

#include "ukernel/peak/peak_dot.h"
#include "ukernel/pin_order.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Instruction : DotRegister<__m512i> {
  static constexpr int kProducts = 64;
  static void Dot(Reg& acc, Reg a, Reg b) {
    acc = _mm512_dpbusd_epi32(acc, a, b);
    PinOrder(acc);  // keeps compilers from multiplying instead
  }
};
static constexpr PeakKernel kRows[] = {PeakDotRow<Instruction, 16>("vnni")};
#else
static constexpr PeakKernel kRows[] = {{.isa = kIsa, .engine = "vnni", .unit = "GOP/s", .multiplies = Format::kI8}};
#endif

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
