// float32 convolution over groups of few channels on AVX2.
#include "ukernel/dwconv/tile_grouped.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_avx2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Lanes {
  using Index = __m256i;
  static Index LoadIndex(const int32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static Index Next(Index i) { return _mm256_add_epi32(i, _mm256_set1_epi32(1)); }
  static __m256 Spread(__m256 x, Index i) { return _mm256_permutevar8x32_ps(x, i); }
};

static constexpr DwConvRun kRun = RunGrouped<Vector, Lanes, 7>;
#else
static constexpr DwConvRun kRun = nullptr;
#endif

static constexpr DwConvKernel kRows[] = {GroupedRow(kIsa, 16, 8, 7, Engine::kVector, 1.4f, 6, kRun)};

}  // namespace

extern const KernelList<DwConvKernel> QUERN_KERNEL_LIST;
constinit const KernelList<DwConvKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
