// The bfloat16 dot-product peak of AVX512-BF16.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE && !QUERN_ISA_EMULATED
#include <immintrin.h>

#include "ukernel/peak/peak_dot.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE && !QUERN_ISA_EMULATED
struct Instruction {
  using Reg = __m512;
  static Reg Load(const uint16_t* p) { return _mm512_loadu_ps(p); }
  static void Store(uint16_t* p, Reg x) { _mm512_storeu_ps(p, x); }
  static void Dot(Reg& acc, Reg a, Reg b) {
    acc = _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
    asm("" : "+v"(acc));  // keeps compilers from multiplying instead
  }
};
static constexpr auto kRun = RunPeakDot<Instruction, 16, kFloatMask>;
#else
static constexpr uint64_t (*kRun)(size_t, const void*) = nullptr;
#endif

static constexpr PeakKernel kRows[] = {
    {.isa = kIsa, .engine = "bf16", .unit = "GFLOP/s", .operations = 2.0 * 16 * 32, .run = kRun}};

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
