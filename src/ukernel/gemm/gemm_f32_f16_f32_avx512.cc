// float32 rows by f16 weights on AVX-512: float32 multiply-adds, even and odd k summed apart, chains of 256 k added up.
// Many rows take weights that a block transform widened, in the order of k; others widen them as they go.
#include "ukernel/gemm/tile_half.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/half_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun8x48x1 = DispatchTileHalf<Vector, LhsF32, WeightsF32<Vector>, 8, 3>;
static constexpr GemmRun kRun6x32x2 = DispatchTileHalf<Vector, LhsF32, WeightsF16, 6, 2>;
static constexpr GemmRun kRun2x64x2 = DispatchTileHalf<Vector, LhsF32, WeightsF16, 2, 4>;
#else
static constexpr GemmRun kRun8x48x1 = nullptr, kRun6x32x2 = nullptr, kRun2x64x2 = nullptr;
#endif

// As gemm_f16_f16_f32_avx512.cc without the staging.
constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, uint16_t kr, GemmRun run) {
  const float units = nr / 16.0f, k = kr;
  return TileHalfRow(Format::kF32, Format::kF16, mr, nr, kr,
                     {.engine = Engine::kVector512,
                      .step_row = units / 2 * k + (kr == 2 ? 2 * units / static_cast<float>(mr) : 0),
                      .step_load = 0.25f * k,
                      .step_min = units * (kr == 2 ? 2.0f : 1.5f),
                      .row = units * 3 + 2,
                      .tile = 30},
                     run);
}

static constexpr GemmKernel kRows[] = {
    Tile(8, 48, 1, kRun8x48x1),
    Tile(6, 32, 2, kRun6x32x2),
    Tile(2, 64, 2, kRun2x64x2),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
