// float32 rows by f16 weights by conversion on AVX2 with F16C: float32 multiply-adds. Few rows widen weights as they
// go, even and odd k summed apart, chains of 256 k added up; many take weights that a block transform widened, in the
// order of k.
#include "ukernel/gemm/tile_f32.h"
#include "ukernel/gemm/tile_half.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/half_avx2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kWidened6x16 = DispatchTileF32<Vector, 6, 1>;
static constexpr GemmRun kRun2x16 = DispatchTileHalf<Vector, LhsF32, WeightsF16, 2, 1>;
#else
static constexpr GemmRun kWidened6x16 = nullptr, kRun2x16 = nullptr;
#endif

// Two multiply-adds a cycle as float32's tiles; the conversion of four columns of pairs takes a slot of their ports
// and one of the shuffles'.
constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, GemmRun run) {
  const float vectors = nr / 8.0f;
  return TileHalfRow(Format::kF32, Format::kF16, mr, nr,
                     {.engine = Engine::kVector,
                      .step_row = vectors + 2 * vectors / mr,
                      .step_load = 0.3f,
                      .step_min = vectors * 2.3f,
                      .row = vectors * 3 + 2,
                      .tile = 40,
                      .read = 26},
                     run);
}

static constexpr GemmKernel kRows[] = {
    WidenedRow(Format::kF32, Format::kF16, 6, 16,
               {.engine = Engine::kVector,
                .step_row = 1,
                .step_load = 0.15f,
                .step_min = 1.4f,
                .row = 6,
                .tile = 30,
                .read = 26},
               kWidened6x16),
    Tile(2, 16, kRun2x16),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
