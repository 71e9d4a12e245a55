// float32 convolution over groups of few channels on AVX-512.
#include "ukernel/dwconv/tile_grouped.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct Lanes {
  using Index = __m512i;
  static Index LoadIndex(const int32_t* p) { return _mm512_loadu_si512(p); }
  static Index Next(Index i) { return _mm512_add_epi32(i, _mm512_set1_epi32(1)); }
  static __m512 Spread(__m512 x, Index i) { return _mm512_permutexvar_ps(i, x); }
};

static constexpr DwConvRun kRun = RunGrouped<Vector, Lanes, 14>;
#else
static constexpr DwConvRun kRun = nullptr;
#endif

static constexpr DwConvKernel kRows[] = {GroupedRow(kIsa, 16, 16, 14, Engine::kVector512, 0.7f, 2, kRun)};

}  // namespace

extern const KernelList<DwConvKernel> QUERN_KERNEL_LIST;
constinit const KernelList<DwConvKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
