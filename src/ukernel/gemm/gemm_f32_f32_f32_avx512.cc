// float32 products on AVX-512: the left side is read in place, tiles of up to 32 accumulators.
#include "ukernel/gemm/stream_fma.h"
#include "ukernel/gemm/tile_fma.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun8x48 = DispatchTileFma<Vector, 8, 3>;
static constexpr GemmRun kRun6x64 = DispatchTileFma<Vector, 6, 4>;
static constexpr GemmRun kRun16x16 = DispatchTileFma<Vector, 16, 1>;
static constexpr GemmRun kRunStream = RunStreamFma<Vector, 2>;
#else
static constexpr GemmRun kRun8x48 = nullptr, kRun6x64 = nullptr, kRun16x16 = nullptr, kRunStream = nullptr;
#endif

// Two multiply-adds a cycle, and a quarter of a cycle per broadcast element of the left side (measured: 8x48 takes 14
// cycles per k, 6x64 13.5, 8x16 6; with one 512-bit unit, 25.5 and 25.6 for the first two; 16x16 9.4 to 10, as each
// pointer of a row serves four k); a unit's line of 64 bytes comes out of L2 in about 1.5 cycles, which bounds few
// rows.
constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, GemmRun run) {
  const float units = nr / 16.0f;
  GemmKernel row = TileF32Row(kF32x16, mr, nr,
                              {.engine = Engine::kVector512,
                               .step_row = units / 2,
                               .step_load = mr > 8 ? 0.15f : 0.25f,
                               .step_min = units * 1.5f,
                               .row = units * 2 + 2,
                               .tile = 30},
                              run);
  row.rhs_in_place = true;
  return row;
}

static constexpr GemmKernel kRows[] = {
    Tile(8, 48, kRun8x48),
    Tile(6, 64, kRun6x64),
    Tile(16, 16, kRun16x16),
    StreamF32Row(kF32x16, Engine::kVector512, 2, 64, 16, kRunStream),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
