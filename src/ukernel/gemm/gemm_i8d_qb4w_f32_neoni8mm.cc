// Dynamic int8 rows by 4-bit blocks by Arm's int8 matrix instructions.
#include "ukernel/gemm/rows_blocks_arm.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_neoni8mm.h"
#include "ukernel/gemm/tile_blocks_lanes.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun4x8 = DispatchTileBlocksLanes<DotNeonI8mmPairs, 4, 1, true>;
static constexpr GemmRun kRun2x16 = DispatchTileBlocksLanes<DotNeonI8mmPairs, 2, 2, true>;
#else
static constexpr GemmRun kRun4x8 = nullptr, kRun2x16 = nullptr;
#endif

// Two instructions a cycle: products of 16 k and 8 columns, scaling of blocks of 32; unpacking for all rows.
constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, GemmRun run) {
  const float units = nr / 8.0f;
  return ArmBlocksRow(kIsa, Format::kU4, 8, mr, nr,
                      {.engine = Engine::kVector,
                       .step_row = units * (4.75f + 3.0f / mr),
                       .step_min = units * 6,
                       .row = units * 3 + 4,
                       .tile = 30,
                       .m_grain = 2},
                      run);
}

static constexpr GemmKernel kRows[] = {Tile(4, 8, kRun4x8), Tile(2, 16, kRun2x16)};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
