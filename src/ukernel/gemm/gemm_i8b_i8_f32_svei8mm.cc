// int8 rows in blocks of 32 by int8 blocks, by SVE's int8 matrix instructions.
#include "ukernel/gemm/rows_blocks_svei8mm.h"

namespace quern::ukernel {
namespace {

static constexpr auto kRows = MakeSveI8mmBlocks<Format::kI8b, Format::kI8>();

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
