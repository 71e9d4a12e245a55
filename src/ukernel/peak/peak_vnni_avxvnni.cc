// The int8 dot-product peak of AVX-VNNI.
#include "ukernel/peak.h"

#if QUERN_ISA_HERE && !QUERN_ISA_EMULATED
#include <immintrin.h>

#include "ukernel/peak/peak_dot.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE && !QUERN_ISA_EMULATED
struct Instruction {
  using Reg = __m256i;
  static Reg Load(const uint16_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static void Store(uint16_t* p, Reg x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x); }
  static void Dot(Reg& acc, Reg a, Reg b) {
    acc = _mm256_dpbusd_avx_epi32(acc, a, b);
    asm("" : "+x"(acc));  // keeps compilers from multiplying instead
  }
};
static constexpr auto kRun = RunPeakDot<Instruction, 12, 0xffff>;
#else
static constexpr uint64_t (*kRun)(size_t, const void*) = nullptr;
#endif

static constexpr PeakKernel kRows[] = {
    {.isa = kIsa, .engine = "vnni", .unit = "GOP/s", .operations = 2.0 * 12 * 32, .run = kRun}};

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
