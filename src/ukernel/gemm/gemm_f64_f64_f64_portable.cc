// float64 products in portable C++: 2-lane vectors that every target has, multiply and add apart.
#include "ukernel/gemm/stream_fma.h"
#include "ukernel/gemm/tile_fma.h"
#include "ukernel/gemm/vector_f64_portable.h"

namespace quern::ukernel {
namespace {

// Three rows: 12 accumulators and the broadcast value fit the 16 registers of baseline x86-64.
static constexpr GemmKernel kRows[] = {
    InFloat64(TileF32Row(kF64x8, 3, 8, {.engine = Engine::kScalar, .step_row = 6, .step_min = 4, .row = 8, .tile = 30},
                         DispatchTileFma<DoubleVector, 3, 1>)),
    InFloat64(StreamF32Row(kF64x8, Engine::kScalar, 2, 16, 2, RunStreamFma<DoubleVector, 2>)),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
