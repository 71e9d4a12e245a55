// Dynamic int8 rows by int8 blocks, in portable C++.
#include "ukernel/gemm/dot_blocks_portable.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {
    BlocksRow(kIsa, Format::kI8d, Format::kI8, 8, 16,
              {.engine = Engine::kScalar, .step_row = 55, .step_min = 150, .row = 60, .tile = 100},
              TileBlocks<BlockDot<Format::kI8>, Format::kI8d, false, 8, 16>::Run),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
