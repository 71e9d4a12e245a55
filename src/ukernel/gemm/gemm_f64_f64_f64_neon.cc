// float64 products on NEON: units of 8 columns, two K values of each row loaded at once and used by lane.
#include "ukernel/gemm/stream_fma.h"
#include "ukernel/gemm/tile_fma.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f64_neon.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun6x8 = DispatchTileFma<DoubleVector, 6, 1>;
static constexpr GemmRun kRunStream = RunStreamFma<DoubleVector, 2>;
#else
static constexpr GemmRun kRun6x8 = nullptr, kRunStream = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    InFloat64(TileF32Row(kF64x8, 6, 8, {.engine = Engine::kVector, .step_row = 2, .step_min = 2, .row = 8, .tile = 30},
                         kRun6x8)),
    InFloat64(StreamF32Row(kF64x8, Engine::kVector, 2, 16, 2, kRunStream)),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
