// Dynamic int8 rows by 4-bit weights with a scale per channel by Arm's dot products.
#include "ukernel/gemm/rows_blocks_neondot.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {NeonDotBlockPasses<Format::kI8d, Format::kI4>(),
                                       NeonDotBlocksRow<Format::kI8d, Format::kI4, 4, 2>(),
                                       NeonDotBlocksSmeUnit<Format::kI8d, Format::kI4>()};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
