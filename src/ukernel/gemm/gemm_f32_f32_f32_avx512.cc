// float32 products on AVX-512: the left side is read in place, tiles of up to 32 accumulators.
#include "ukernel/gemm/rows_fma_avx512.h"
#include "ukernel/gemm/stream_fma.h"
#include "ukernel/gemm/tiles_fma.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun8x48 = DispatchTilesFma<HalvedVector, 8, 3>;
static constexpr GemmRun kRun6x64 = DispatchTilesFma<HalvedVector, 6, 4>;
static constexpr GemmRun kRun16x16 = DispatchTilesFma<HalvedVector, 16, 1>;
static constexpr GemmRun kRunStream = RunStreamFma<Vector, 2>;
#else
static constexpr GemmRun kRun8x48 = nullptr, kRun6x64 = nullptr, kRun16x16 = nullptr, kRunStream = nullptr;
#endif

constexpr GemmKernel Tile(uint16_t mr, uint16_t units, GemmRun run) {
  return OfManyTiles(WithNarrow(Avx512Tile(kF32x16, mr, units, run)));
}

static constexpr GemmKernel kRows[] = {
    Tile(8, 3, kRun8x48),
    Tile(6, 4, kRun6x64),
    Tile(16, 1, kRun16x16),
    StreamF32Row(kF32x16, Engine::kVector512, 2, 64, 16, kRunStream),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
