// float64 products on AVX-512: the left side is read in place, tiles of up to 24 accumulators.
#include "ukernel/gemm/stream_fma.h"
#include "ukernel/gemm/tile_fma.h"

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

// The instructions of float32's tiles (gemm_f32_f32_f32_avx512.cc), and their terms.
constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, GemmRun run) {
  const float units = nr / 8.0f;
  GemmKernel row = InFloat64(TileF32Row(kF64x8, mr, nr,
                                        {.engine = Engine::kVector512,
                                         .step_row = units / 2,
                                         .step_load = mr > 8 ? 0.15f : 0.25f,
                                         .step_min = units * 1.5f,
                                         .row = units * 2 + 2,
                                         .tile = 30},
                                        run));
  row.rhs_in_place = true;
  return row;
}

static constexpr GemmKernel kRows[] = {
    Tile(8, 24, kRun8x24),
    Tile(16, 8, kRun16x8),
    InFloat64(StreamF32Row(kF64x8, Engine::kVector512, 2, 32, 8, kRunStream)),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
