// Dynamic int8 rows by 4-bit weights with a scale per channel by Arm's int8 matrix instructions.
#include "ukernel/gemm/rows_blocks_neoni8mm.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {NeonI8mmBlockPasses<Format::kI8d, Format::kI4>(),
                                       NeonI8mmBlocksRow<Format::kI8d, Format::kI4, 4, 2>()};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
