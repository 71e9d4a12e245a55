// float64 products on AVX2 with FMA: 6x8 tiles, the left side is read in place.
#include "ukernel/gemm/stream_fma.h"
#include "ukernel/gemm/tile_fma.h"

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

// The instructions of float32's tiles (gemm_f32_f32_f32_avx2.cc), and their terms.
constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, float step_load, GemmRun run) {
  const float vectors = nr / 4.0f;
  return InFloat64(TileF32Row(kF64x8, mr, nr,
                              {.engine = Engine::kVector,
                               .step_row = vectors / 2,
                               .step_load = step_load,
                               .step_min = vectors * 0.7f,
                               .row = vectors * 2 + 2,
                               .tile = 30,
                               .read = 26},
                              run));
}

static constexpr GemmKernel kRows[] = {
    Tile(6, 8, 0.15f, kRun6x8),
    Tile(2, 16, 0.5f, kRun2x16),  // few rows: two streams of weights
    InFloat64(StreamF32Row(kF64x8, Engine::kVector, 2, 32, 4, kRunStream)),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
