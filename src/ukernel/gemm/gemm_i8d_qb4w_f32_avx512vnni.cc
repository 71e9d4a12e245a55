// Dynamic int8 rows by 4-bit blocks on AVX512-VNNI.
#include "ukernel/gemm/tile_blocks.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_blocks_vnni.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun6x32 = DispatchTileBlocks<DotU4Vnni, 6, 2>;
static constexpr GemmRun kRun2x64 = DispatchTileBlocks<DotU4Vnni, 2, 4>;
#else
static constexpr GemmRun kRun6x32 = nullptr, kRun2x64 = nullptr;
#endif

// Measured for blocks of 32: dot products, scaling of the blocks, sums of the rows; unpacking for all rows.
constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, float step_row, float step_min, GemmRun run) {
  const float units = nr / 16.0f;
  const GemmCost cost{
      .engine = Engine::kVector512, .step_row = step_row, .step_min = step_min, .row = units * 2 + 4, .tile = 40};
  return TileBlocks4Row(TileBlocksRow(kIsa, Format::kU4, mr, nr, 4, cost, run));
}

static constexpr GemmKernel kRows[] = {
    Tile(6, 32, 4.4f, 9, kRun6x32),
    Tile(2, 64, 10.3f, 14.5f, kRun2x64),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
