// float32 depthwise convolution on AVX2.
#include "ukernel/dwconv/tile_dw.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_avx2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr DwConvRun kRun = RunDw<DwFloats<Vector, DwLoadsF32<Vector>>, 7>;
#else
static constexpr DwConvRun kRun = nullptr;
#endif

static constexpr DwConvKernel kRows[] = {DwFloatRow(kIsa, Format::kF32, 16, 7, Engine::kVector, 1.2f, 6, kRun)};

}  // namespace

extern const KernelList<DwConvKernel> QUERN_KERNEL_LIST;
constinit const KernelList<DwConvKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
