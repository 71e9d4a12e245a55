// Dynamic int8 rows by 4-bit blocks, which a block transform makes int8, on AVX2.
#include "ukernel/gemm/tile_blocks.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_blocks_wide.h"
#include "ukernel/gemm/dot_i8_avx2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun2x16 = DispatchTileBlocks<DotBlocksWide<DotAvx2<true>>, 2, 1>;
#else
static constexpr GemmRun kRun2x16 = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    TileBlocksRow(kIsa, Format::kU4, 2, 16, 8,
                  {.engine = Engine::kVector, .step_row = 9, .step_min = 9, .row = 10, .tile = 40}, kRun2x16),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
