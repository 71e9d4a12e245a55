// Dynamic int8 rows by 8-bit blocks with zero points, by SVE's dot products.
#include "ukernel/gemm/rows_blocks_sve.h"

namespace quern::ukernel {
namespace {

static constexpr auto kRows = MakeSveBlocks<Format::kI8d, Format::kU8>();

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
