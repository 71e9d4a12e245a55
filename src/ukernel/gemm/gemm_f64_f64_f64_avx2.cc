// float64 products on AVX2 with FMA: 6x8 tiles, the left side is read in place.
#include "ukernel/gemm/rows_fma_avx2.h"
#include "ukernel/gemm/stream_fma.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f64_avx2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun6x8 = DispatchTileFma<DoubleVector, 6, 1>;
static constexpr GemmRun kRun2x16 = DispatchTileFma<DoubleVector, 2, 2>;
static constexpr GemmRun kRunStream = RunStreamFma<DoubleVector, 2>;
#else
static constexpr GemmRun kRun6x8 = nullptr, kRun2x16 = nullptr, kRunStream = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    InFloat64(Avx2Tile(kF64x8, 6, 1, 0.15f, kRun6x8)),
    InFloat64(Avx2Tile(kF64x8, 2, 2, 0.5f, kRun2x16)),  // few rows: two streams of weights
    InFloat64(StreamF32Row(kF64x8, Engine::kVector, 2, 32, 4, kRunStream)),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
