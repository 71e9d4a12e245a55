// float32 products on AVX2 with FMA: 6x16 tiles, the left side is read in place.
#include "ukernel/gemm/stream_fma.h"
#include "ukernel/gemm/tile_fma.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_avx2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun6x16 = DispatchTileFma<Vector, 6, 1>;
static constexpr GemmRun kRun2x32 = DispatchTileFma<Vector, 2, 2>;
static constexpr GemmRun kRunStream = RunStreamFma<Vector, 2>;
#else
static constexpr GemmRun kRun6x16 = nullptr, kRun2x32 = nullptr, kRunStream = nullptr;
#endif

// Measured: 6x16 takes 6.9 cycles per k; 2x32, whose eight sums hardly cover the latency, 5. One row by weights in L2
// (525 KB) takes them at 26 bytes per cycle, AVX-512 at 32 and more.
constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, float step_load, GemmRun run) {
  const float vectors = nr / 8.0f;
  return TileF32Row(kF32x16, mr, nr,
                    {.engine = Engine::kVector,
                     .step_row = vectors / 2,
                     .step_load = step_load,
                     .step_min = vectors * 0.7f,
                     .row = vectors * 2 + 2,
                     .tile = 30,
                     .read = 26},
                    run);
}

static constexpr GemmKernel kRows[] = {
    Tile(6, 16, 0.15f, kRun6x16),
    Tile(2, 32, 0.5f, kRun2x32),  // few rows: four streams of weights
    StreamF32Row(kF32x16, Engine::kVector, 2, 64, 8, kRunStream),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
