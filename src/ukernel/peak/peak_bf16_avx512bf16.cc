// The bfloat16 dot-product peak of AVX512-BF16.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include <immintrin.h>

#include "ukernel/peak/peak_dot.h"
#include "ukernel/pin_order.h"
#include "ukernel/vector_bf16.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Instruction : DotRegister<__m512> {
  static constexpr int kProducts = 32;
  static void Dot(Reg& acc, Reg a, Reg b) {
    acc = DotBf16Pairs(acc, _mm512_castps_si512(a), _mm512_castps_si512(b));
    PinOrder(acc);  // keeps compilers from multiplying instead
  }
};
static constexpr PeakKernel kRows[] = {PeakFloatRow<Instruction, 16>("bf16", Format::kBf16)};
#else
static constexpr PeakKernel kRows[] = {{.isa = kIsa, .engine = "bf16", .unit = "GFLOP/s", .multiplies = Format::kBf16}};
#endif

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
