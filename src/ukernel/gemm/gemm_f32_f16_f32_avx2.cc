// float32 rows by f16 weights on AVX2 with F16C: float32 multiply-adds, even and odd k summed apart, chains of 256 k
// added up. Many rows take weights that a block transform widened, in the order of k; others widen them as they go.
#include "ukernel/gemm/tile_half.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/half_avx2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun6x16x1 = DispatchTileHalf<Vector, LhsF32, WeightsF32<Vector>, 6, 1>;
static constexpr GemmRun kRun3x16x2 = DispatchTileHalf<Vector, LhsF32, WeightsF16, 3, 1>;
static constexpr GemmRun kRun1x32x2 = DispatchTileHalf<Vector, LhsF32, WeightsF16, 1, 2>;
#else
static constexpr GemmRun kRun6x16x1 = nullptr, kRun3x16x2 = nullptr, kRun1x32x2 = nullptr;
#endif

// As float32's tiles (gemm_f32_f32_f32_avx2.cc); converting weights takes slots of the multiply-adds'
// ports and one of the shuffles'.
constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, uint16_t kr, GemmRun run) {
  const float vectors = nr / 8.0f, k = kr;
  return TileHalfRow(Format::kF32, Format::kF16, mr, nr, kr,
                     {.engine = Engine::kVector,
                      .step_row = vectors / 2 * k + (kr == 2 ? 2.0f * vectors / static_cast<float>(mr) : 0),
                      .step_load = 0.15f * k,
                      .step_min = vectors * (kr == 2 ? 2.0f : 0.7f),
                      .row = vectors * 2 + 2,
                      .tile = 30,
                      .read = 26},
                     run);
}

static constexpr GemmKernel kRows[] = {
    Tile(6, 16, 1, kRun6x16x1),
    Tile(3, 16, 2, kRun3x16x2),
    Tile(1, 32, 2, kRun1x32x2),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
