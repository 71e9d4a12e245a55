// bf16 products by conversion on AVX-512: float32 multiply-adds in the order of k, chains of 256 k added up. Many rows
// take weights that a block transform widened, others widen them as they go.
#include "ukernel/gemm/tile_half.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/half_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun8x48x1 = DispatchTileHalf<Vector, LhsBf16, WeightsF32<Vector>, 8, 3>;
static constexpr GemmRun kRun8x48x2 = DispatchTileHalf<Vector, LhsBf16, WeightsBf16, 8, 3>;
static constexpr GemmRun kRun4x64x2 = DispatchTileHalf<Vector, LhsBf16, WeightsBf16, 4, 4>;
#else
static constexpr GemmRun kRun8x48x1 = nullptr, kRun8x48x2 = nullptr, kRun4x64x2 = nullptr;
#endif

// As float32's tiles (gemm_f32_f32_f32_avx512.cc), and 0.1 cycles per element for staging; a vector of pairs costs two
// instructions on the ports of multiply-adds.
constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, uint16_t kr, GemmRun run) {
  const float units = nr / 16.0f, k = kr;
  return TileHalfRow(Format::kBf16, Format::kBf16, mr, nr, kr,
                     {.engine = Engine::kVector512,
                      .step_row = units / 2 * k + (kr == 2 ? units / static_cast<float>(mr) : 0),
                      .step_load = 0.3f * k,
                      .step_min = units * 1.5f,
                      .row = units * 2 + 4,
                      .tile = 40},
                     run);
}

static constexpr GemmKernel kRows[] = {
    Tile(8, 48, 1, kRun8x48x1),
    Tile(8, 48, 2, kRun8x48x2),
    Tile(4, 64, 2, kRun4x64x2),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
