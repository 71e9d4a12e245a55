// float32 rows by f16 weights by conversion on AVX-512: float32 multiply-adds. Few rows widen weights as they go, even
// and odd k summed apart, chains of 256 k added up; many take weights that a block transform widened, in the order of
// k.
#include "ukernel/gemm/tile_f32.h"
#include "ukernel/gemm/tile_half.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/half_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kWidened8x48 = DispatchTileF32<Vector, 8, 3>;
static constexpr GemmRun kRun6x32 = DispatchTileHalf<Vector, LhsF32, WeightsF16, 6, 2>;
static constexpr GemmRun kRun2x64 = DispatchTileHalf<Vector, LhsF32, WeightsF16, 2, 4>;
#else
static constexpr GemmRun kWidened8x48 = nullptr, kRun6x32 = nullptr, kRun2x64 = nullptr;
#endif

// Two multiply-adds a cycle as float32's tiles; the conversion of half a line of pairs takes a slot of their ports and
// one of the shuffles'.
constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, GemmRun run) {
  const float units = nr / 16.0f;
  return TileHalfRow(Format::kF32, Format::kF16, mr, nr,
                     {.engine = Engine::kVector512,
                      .step_row = units + 2 * units / mr,
                      .step_load = 0.3f,
                      .step_min = units * 2,
                      .row = units * 3 + 2,
                      .tile = 40},
                     run);
}

static constexpr GemmKernel kRows[] = {
    WidenedRow(
        Format::kF32, Format::kF16, 8, 48,
        {.engine = Engine::kVector512, .step_row = 1.5f, .step_load = 0.25f, .step_min = 4.5f, .row = 8, .tile = 30},
        kWidened8x48),
    Tile(6, 32, kRun6x32),
    Tile(2, 64, kRun2x64),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
