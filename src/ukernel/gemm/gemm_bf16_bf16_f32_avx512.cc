// bf16 products by conversion on AVX-512: float32 multiply-adds. Few rows widen weights as they go, in the order of k,
// chains of 256 k added up; many take weights that a block transform widened, in the order of k.
#include "ukernel/gemm/rows_half_x86.h"
#include "ukernel/gemm/tile_fma.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/half_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kWidened8x48 = DispatchTileFma<HalvedVector, 8, 3>;
static constexpr GemmRun kRun6x48 = DispatchTileHalf<Vector, LhsBf16, WeightsBf16, 6, 3>;
static constexpr GemmRun kRun4x64 = DispatchTileHalf<Vector, LhsBf16, WeightsBf16, 4, 4>;
#else
static constexpr GemmRun kWidened8x48 = nullptr, kRun6x48 = nullptr, kRun4x64 = nullptr;
#endif

// Two multiply-adds a cycle as float32's tiles; a vector of pairs costs two instructions on their ports, and staging
// 0.1 cycles per element.
constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, GemmRun run) {
  const float units = nr / 16.0f;
  return TileHalfRow(Format::kBf16, Format::kBf16, mr, nr,
                     {.engine = Engine::kVector512,
                      .step_row = units + units / mr,
                      .step_load = 0.5f,
                      .step_min = units * 1.5f,
                      .row = units * 3 + 2,
                      .tile = 40},
                     run);
}

static constexpr GemmKernel kRows[] = {
    WidenedAvx512(Format::kBf16, Format::kBf16, kWidened8x48),
    Tile(6, 48, kRun6x48),
    Tile(4, 64, kRun4x64),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
