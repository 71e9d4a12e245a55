// Dynamic int8 rows by int8 blocks, in portable C++.
#include "ukernel/gemm/dot_blocks_wide.h"
#include "ukernel/gemm/dot_i8_portable.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {
    TileBlocksRow(kIsa, Format::kI8, 1, 16, 8,
                  {.engine = Engine::kScalar, .step_row = 30, .step_min = 30, .row = 20, .tile = 40},
                  DispatchTileBlocks<DotBlocksWide<DotPortable<true>>, 1, 1>),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
