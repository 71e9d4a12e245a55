// float32 depthwise convolution on AVX-512: eight pixels hide the latency of the two multiply-add ports.
#include "ukernel/dwconv/tile_dw.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr DwConvRun kRun = RunDw<DwFloats<Vector, DwLoadsF32<Vector>>, 8>;
#else
static constexpr DwConvRun kRun = nullptr;
#endif

static constexpr DwConvKernel kRows[] = {{.isa = kIsa,
                                          .lanes = 16,
                                          .pixels = 8,
                                          .fused = kFusedF32,
                                          .engine = Engine::kVector512,
                                          .cycles_per_tap = 0.6f,
                                          .cycles_per_pixel = 4,
                                          .run = kRun}};

}  // namespace

extern const KernelList<DwConvKernel> QUERN_KERNEL_LIST;
constinit const KernelList<DwConvKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
