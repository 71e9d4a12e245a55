// bf16 and f16 rows to float32 rows.
#include "ukernel/quantize/convert_rows.h"

#if QUERN_ISA_HERE
#include <immintrin.h>
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Bf16 {
  static constexpr size_t kLanes = 8;
  static void Run(const char* from, float* to) {
    const __m256i x = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_slli_epi32(x, 16));
  }
  static void One(const char* from, float* to) {
    __builtin_memset(to, 0, 2);
    __builtin_memcpy(reinterpret_cast<char*>(to) + 2, from, 2);
  }
};
struct F16 {
  static constexpr size_t kLanes = 8;
  static void Run(const char* from, float* to) {
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
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
    Row(Format::kBf16, 0.2f, kBf16),
    Row(Format::kF16, 0.2f, kF16),
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
