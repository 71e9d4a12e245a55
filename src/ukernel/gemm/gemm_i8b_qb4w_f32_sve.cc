// int8 rows in blocks of 32 by 4-bit blocks, by SVE's dot products.
#include "ukernel/gemm/rows_blocks_sve.h"

namespace quern::ukernel {
namespace {

static constexpr auto kRows = MakeSveBlocks<Format::kI8b, Format::kU4>();

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
