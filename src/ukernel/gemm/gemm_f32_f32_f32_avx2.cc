// float32 products on AVX2 with FMA: 6x16 tiles, the left side is read in place.
#include "ukernel/gemm/rows_fma_avx2.h"
#include "ukernel/gemm/stream_fma.h"
#include "ukernel/gemm/tiles_fma.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_avx2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun6x16 = DispatchTilesFma<Vector, 6, 1>;
static constexpr GemmRun kRun2x32 = DispatchTileFma<Vector, 2, 2>;
static constexpr GemmRun kRunStream = RunStreamFma<Vector, 2>;
#else
static constexpr GemmRun kRun6x16 = nullptr, kRun2x32 = nullptr, kRunStream = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    OfManyTiles(Avx2Tile(kF32x16, 6, 1, 0.15f, kRun6x16)),
    Avx2Tile(kF32x16, 2, 2, 0.5f, kRun2x32),  // few rows: four streams of weights
    StreamF32Row(kF32x16, Engine::kVector, 2, 64, 8, kRunStream),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
