// Depthwise convolution of float16 and bfloat16 on AVX-512, summed in float32.
#include "ukernel/dwconv/tile_dw.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct LoadsF16 {
  static constexpr size_t kBytes = 2;
  static __m512 Load(const char* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static __m512 LoadPart(const char* p, size_t, __mmask16 mask) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p));
  }
};
struct LoadsBf16 {
  static constexpr size_t kBytes = 2;
  static __m512 Wide(__m256i x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16)); }
  static __m512 Load(const char* p) { return Wide(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static __m512 LoadPart(const char* p, size_t, __mmask16 mask) { return Wide(_mm256_maskz_loadu_epi16(mask, p)); }
};

static constexpr DwConvRun kF16 = RunDw<DwFloats<Vector, LoadsF16>, 8>;
static constexpr DwConvRun kBf16 = RunDw<DwFloats<Vector, LoadsBf16>, 8>;
#else
static constexpr DwConvRun kF16 = nullptr, kBf16 = nullptr;
#endif

static constexpr DwConvKernel kRows[] = {
    DwFloatRow(kIsa, Format::kF16, 16, 8, Engine::kVector512, 0.75f, 5, kF16),
    DwFloatRow(kIsa, Format::kBf16, 16, 8, Engine::kVector512, 0.75f, 5, kBf16),
};

}  // namespace

extern const KernelList<DwConvKernel> QUERN_KERNEL_LIST;
constinit const KernelList<DwConvKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
