// int8 rows in blocks of 32 by int8 blocks, on SME2.
#include "ukernel/gemm/rows_blocks_sme2.h"

namespace quern::ukernel {
namespace {

static constexpr auto kRows = MakeSmeBlocks<Format::kI8b, Format::kI8>();

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
