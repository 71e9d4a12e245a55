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
    for (int i = 0; i < 64; i += 32) {
      const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs + i));
      const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
      _mm256_store_si256(reinterpret_cast<__m256i*>(even + i), _mm256_slli_epi32(x, 16));
      _mm256_store_si256(reinterpret_cast<__m256i*>(odd + i), _mm256_and_si256(x, mask));
    }
  }
};
struct F16 {
  static __m256 InOrder(__m256 x) {  // its pairs of lanes 0 2 1 3
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), _MM_SHUFFLE(3, 1, 2, 0)));
  }
  static void Run(const char* pairs, char* even, char* odd) {
    for (int i = 0; i < 64; i += 32) {
      const __m256 low = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs + i)));
      const __m256 high = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs + i + 16)));
      _mm256_store_ps(reinterpret_cast<float*>(even + i), InOrder(_mm256_shuffle_ps(low, high, 0x88)));
      _mm256_store_ps(reinterpret_cast<float*>(odd + i), InOrder(_mm256_shuffle_ps(low, high, 0xdd)));
    }
  }
};
static constexpr auto kBf16 = WidenPairs<Bf16>, kF16 = WidenPairs<F16>;
#else
static constexpr decltype(TransformKernel::run) kBf16 = nullptr, kF16 = nullptr;
#endif

static constexpr TransformKernel kRows[] = {
    {.isa = kIsa, .from = kBf16Pairs16, .to = kF32x16, .cycles_per_element = 0.15f, .run = kBf16},
    {.isa = kIsa, .from = kF16Pairs16, .to = kF32x16, .cycles_per_element = 0.35f, .run = kF16},
};

}  // namespace

extern const KernelList<TransformKernel> QUERN_KERNEL_LIST;
constinit const KernelList<TransformKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]),
                                                              QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
