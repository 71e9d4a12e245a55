// Depthwise convolution of bytes on AVX2, summed in int32.
#include "ukernel/dwconv/dw_integers.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_i32_avx2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Bytes {
  template <bool kSigned>
  static __m256i Wide(__m128i x) {
    return kSigned ? _mm256_cvtepi8_epi32(x) : _mm256_cvtepu8_epi32(x);
  }
  template <bool kSigned>
  static __m256i Widen(const char* p) {
    return Wide<kSigned>(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  template <bool kSigned>
  static __m256i WidenPart(const char* p, size_t lanes, IntVector::Mask) {
    int64_t bytes = 0;
    for (size_t i = 0; i < lanes; ++i) reinterpret_cast<char*>(&bytes)[i] = p[i];
    return Wide<kSigned>(_mm_cvtsi64_si128(bytes));
  }
  static __m256i Weights(const char* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  // The weights' upper halves are zero, so that those of x do not count.
  static __m256i MulAdd(__m256i x, __m256i w, __m256i sum) { return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w)); }
};

static constexpr DwConvRun kSigned = RunDw<DwIntegers<IntVector, Bytes, true>, 7>;
static constexpr DwConvRun kUnsigned = RunDw<DwIntegers<IntVector, Bytes, false>, 7>;
#else
static constexpr DwConvRun kSigned = nullptr, kUnsigned = nullptr;
#endif

static constexpr DwConvKernel kRows[] = {
    DwIntegerRow(kIsa, Format::kI8, 7, Engine::kVector, 2.2f, 8, kSigned),
    DwIntegerRow(kIsa, Format::kU8, 7, Engine::kVector, 2.2f, 8, kUnsigned),
};

}  // namespace

extern const KernelList<DwConvKernel> QUERN_KERNEL_LIST;
constinit const KernelList<DwConvKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
