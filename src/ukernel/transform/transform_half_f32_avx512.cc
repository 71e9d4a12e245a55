// Pairs of bf16 and of f16 to float32 units.
#include "ukernel/transform/widen_pairs.h"

#if QUERN_ISA_HERE
#include <immintrin.h>
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Bf16 {
  static void Run(const char* pairs, char* even, char* odd) {
    const __m512i x = _mm512_loadu_si512(pairs);
    _mm512_store_si512(even, _mm512_slli_epi32(x, 16));
    _mm512_store_si512(odd, _mm512_and_si512(x, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
  }
};
struct F16 {
  static void Run(const char* pairs, char* even, char* odd) {
    const __m512i x = _mm512_loadu_si512(pairs);
    _mm512_store_ps(even, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)));
    _mm512_store_ps(odd, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(x, 16))));
  }
};
static constexpr auto kBf16 = WidenPairs<Bf16>, kF16 = WidenPairs<F16>;
#else
static constexpr decltype(TransformKernel::run) kBf16 = nullptr, kF16 = nullptr;
#endif

static constexpr TransformKernel kRows[] = {
    {.isa = kIsa, .from = kBf16Pairs16, .to = kF32x16, .cycles_per_element = 0.1f, .run = kBf16},
    {.isa = kIsa, .from = kF16Pairs16, .to = kF32x16, .cycles_per_element = 0.2f, .run = kF16},
};

}  // namespace

extern const KernelList<TransformKernel> QUERN_KERNEL_LIST;
constinit const KernelList<TransformKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]),
                                                              QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
