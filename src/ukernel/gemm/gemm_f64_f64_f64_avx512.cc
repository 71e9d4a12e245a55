// float64 products on AVX-512: the left side is read in place, tiles of up to 24 accumulators.
#include "ukernel/gemm/rows_fma_avx512.h"
#include "ukernel/gemm/stream_fma.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f64_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun8x24 = DispatchTileFma<DoubleVector, 8, 3>;
static constexpr GemmRun kRun16x8 = DispatchTileFma<DoubleVector, 16, 1>;
static constexpr GemmRun kRunStream = RunStreamFma<DoubleVector, 2>;
#else
static constexpr GemmRun kRun8x24 = nullptr, kRun16x8 = nullptr, kRunStream = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    InFloat64(Avx512Tile(kF64x8, 8, 3, kRun8x24)),
    InFloat64(Avx512Tile(kF64x8, 16, 1, kRun16x8)),
    InFloat64(StreamF32Row(kF64x8, Engine::kVector512, 2, 32, 8, kRunStream)),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
