// The int8 dot-product peak of AVX512-VNNI.
#include "ukernel/gemm/epilogue_f32.h"
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include <immintrin.h>
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
// Latency 5 on two ports: at least 10 chains; four products and sums in each of 16 lanes.
constexpr int kAccumulators = 16;

uint64_t Run(size_t steps, const void* data) {
  const auto* p = static_cast<const char*>(data);
  __m512i acc[kAccumulators];
  QUERN_UNROLL for (int i = 0; i < kAccumulators; ++i) acc[i] = _mm512_loadu_si512(p + 64 * i);
  const __m512i a = _mm512_loadu_si512(p + 64 * kAccumulators), b = _mm512_loadu_si512(p + 64 * (kAccumulators + 1));
  for (size_t s = 0; s < steps; ++s) {
    QUERN_UNROLL for (int i = 0; i < kAccumulators; ++i) {
      acc[i] = _mm512_dpbusd_epi32(acc[i], a, b);
      asm("" : "+v"(acc[i]));  // keeps compilers from multiplying instead
    }
  }
  uint64_t sum = 0;
  QUERN_UNROLL for (int i = 0; i < kAccumulators; ++i) sum += static_cast<uint32_t>(_mm512_reduce_add_epi32(acc[i]));
  return sum;
}
static constexpr auto kRun = Run;
#else
static constexpr uint64_t (*kRun)(size_t, const void*) = nullptr;
#endif

static constexpr PeakKernel kRows[] = {
    {.isa = kIsa, .engine = "vnni", .unit = "GOP/s", .operations = 2.0 * 16 * 64, .run = kRun}};

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
