// Depthwise convolution of float16 and bfloat16 on AVX2, summed in float32.
#include "ukernel/dwconv/tile_dw.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_avx2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
// Fewer than a vector, without the stack.
__m128i LoadHalves(const char* p, size_t lanes) {
  uint64_t low = 0, high = 0;
  for (size_t i = 0; i < lanes; ++i) {
    uint16_t half;
    __builtin_memcpy(&half, p + 2 * i, 2);
    if (i < 4) low |= uint64_t{half} << (16 * i);
    if (i >= 4) high |= uint64_t{half} << (16 * (i - 4));
  }
  return _mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low));
}
struct LoadsF16 {
  static constexpr size_t kBytes = 2;
  static __m256 Load(const char* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  static __m256 LoadPart(const char* p, size_t lanes, Vector::Mask) { return _mm256_cvtph_ps(LoadHalves(p, lanes)); }
};
struct LoadsBf16 {
  static constexpr size_t kBytes = 2;
  static __m256 Wide(__m128i x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16)); }
  static __m256 Load(const char* p) { return Wide(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  static __m256 LoadPart(const char* p, size_t lanes, Vector::Mask) { return Wide(LoadHalves(p, lanes)); }
};

static constexpr DwConvRun kF16 = RunDw<DwFloats<Vector, LoadsF16>, 5>;
static constexpr DwConvRun kBf16 = RunDw<DwFloats<Vector, LoadsBf16>, 5>;
#else
static constexpr DwConvRun kF16 = nullptr, kBf16 = nullptr;
#endif

static constexpr DwConvKernel kRows[] = {
    DwFloatRow(kIsa, Format::kF16, 16, 5, Engine::kVector, 1.4f, 8, kF16),
    DwFloatRow(kIsa, Format::kBf16, 16, 5, Engine::kVector, 1.4f, 8, kBf16),
};

}  // namespace

extern const KernelList<DwConvKernel> QUERN_KERNEL_LIST;
constinit const KernelList<DwConvKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
