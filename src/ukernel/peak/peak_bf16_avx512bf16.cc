// The bf16 dot-product peak of AVX512-BF16.
#include "ukernel/gemm/epilogue_f32.h"
#include "ukernel/peak.h"

#if QUERN_ISA_HERE
#include "ukernel/vector_bf16.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
// Latency up to 6 on two ports: at least 12 chains; two products and sums in each of 16 lanes.
constexpr int kAccumulators = 16;

uint64_t Run(size_t steps, const void* data) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  alignas(64) uint16_t values[2][32];
  alignas(64) float sums[kAccumulators][16];
  for (int i = 0; i < 64; ++i) {  // bf16 of random sign and digits, magnitude below 1: the sums stay bounded
    values[i / 32][i % 32] = static_cast<uint16_t>((bytes[i] << 8 & 0x8000) | 0x3e00 | (bytes[i] & 0x7f));
  }
  for (int i = 0; i < kAccumulators * 16; ++i) sums[i / 16][i % 16] = static_cast<float>(bytes[64 + i]);
  __m512 acc[kAccumulators];
  QUERN_UNROLL for (int i = 0; i < kAccumulators; ++i) acc[i] = _mm512_load_ps(sums[i]);
  const __m512i a = _mm512_load_si512(values[0]), b = _mm512_load_si512(values[1]);
  for (size_t s = 0; s < steps; ++s) {
    QUERN_UNROLL for (int i = 0; i < kAccumulators; ++i) acc[i] = DotBf16Pairs(acc[i], a, b);
  }
  QUERN_UNROLL for (int i = 0; i < kAccumulators; ++i) _mm512_store_ps(sums[i], acc[i]);
  uint64_t sum = 0;
  for (int i = 0; i < kAccumulators * 16; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, &sums[i / 16][i % 16], sizeof(bits));
    sum += bits;
  }
  return sum;
}
static constexpr auto kRun = Run;
#else
static constexpr uint64_t (*kRun)(size_t, const void*) = nullptr;
#endif

static constexpr PeakKernel kRows[] = {
    {.isa = kIsa, .engine = "bf16", .unit = "GFLOP/s", .operations = 2.0 * 16 * 32, .run = kRun}};

}  // namespace

extern const KernelList<PeakKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PeakKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
