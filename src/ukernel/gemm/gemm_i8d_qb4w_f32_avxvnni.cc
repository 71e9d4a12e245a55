// Dynamic int8 rows by 4-bit blocks, on AVX-VNNI.
#include "ukernel/gemm/tile_blocks.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_blocks_avxvnni.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun = TileBlocks<BlockDot<Format::kU4>, Format::kI8d, false, 16, 32>::Run;
#else
static constexpr GemmRun kRun = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    BlocksRow(kIsa, Format::kI8d, Format::kU4, 16, 32,
              {.engine = Engine::kVector, .step_row = 14, .step_min = 30, .row = 40, .tile = 120}, kRun),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
