// bf16 and f16 rows to float32 rows.
#include "ukernel/quantize/convert_rows.h"

#if QUERN_ISA_HERE
#include <immintrin.h>
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Bf16 {
  static constexpr size_t kLanes = 16;
  static void Run(const char* from, float* to) {
    const __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    _mm512_storeu_si512(to, _mm512_slli_epi32(x, 16));
  }
  static void One(const char* from, float* to) {
    __builtin_memset(to, 0, 2);
    __builtin_memcpy(reinterpret_cast<char*>(to) + 2, from, 2);
  }
};
struct F16 {
  static constexpr size_t kLanes = 16;
  static void Run(const char* from, float* to) {
    _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
  }
  static void One(const char* from, float* to) {
    uint16_t x;
    __builtin_memcpy(&x, from, sizeof(x));
    *to = _cvtsh_ss(x);
  }
};
static constexpr auto kBf16 = ConvertRows<Bf16, uint16_t, float>, kF16 = ConvertRows<F16, uint16_t, float>;
#else
static constexpr decltype(LhsPackKernel::run) kBf16 = nullptr, kF16 = nullptr;
#endif

constexpr LhsPackKernel Row(Format source, float cycles, decltype(LhsPackKernel::run) run) {
  return {.isa = kIsa,
          .layout = kF32Rows,
          .source = source,
          .forms = kLhsRows | kLhsTaps | kLhsRowPointers,
          .cycles_per_element = cycles,
          .run = run};
}

static constexpr LhsPackKernel kRows[] = {
    Row(Format::kBf16, 0.12f, kBf16),
    Row(Format::kF16, 0.12f, kF16),
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
