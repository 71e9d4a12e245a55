// bf16 products by conversion on AVX2: float32 multiply-adds. Few rows widen weights as they go, in the order of k,
// chains of 256 k added up; many take weights that a block transform widened, in the order of k.
#include "ukernel/gemm/rows_half_x86.h"
#include "ukernel/gemm/tile_fma.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/half_avx2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kWidened6x16 = DispatchTileFma<Vector, 6, 1>;
static constexpr GemmRun kRun6x16 = DispatchTileHalf<Vector, LhsBf16, WeightsBf16, 6, 1>;
static constexpr GemmRun kRun2x32 = DispatchTileHalf<Vector, LhsBf16, WeightsBf16, 2, 2>;
#else
static constexpr GemmRun kWidened6x16 = nullptr, kRun6x16 = nullptr, kRun2x32 = nullptr;
#endif

// Measured on Zen 5: 14.4 cycles per pair of k for 6x16, 10.4 for 2x32; one row alone 3.9 and 5.8.
constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, float step_min, GemmRun run) {
  const float vectors = nr / 8.0f;
  return TileHalfRow(Format::kBf16, Format::kBf16, mr, nr,
                     {.engine = Engine::kVector,
                      .step_row = vectors + 0.45f * vectors / mr,
                      .step_load = 0.3f,
                      .step_min = step_min,
                      .row = vectors * 3 + 2,
                      .tile = 40,
                      .read = 26},
                     run);
}

static constexpr GemmKernel kRows[] = {
    WidenedAvx2(Format::kBf16, Format::kBf16, kWidened6x16),
    Tile(6, 16, 3.9f, kRun6x16),
    Tile(2, 32, 5.8f, kRun2x32),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
