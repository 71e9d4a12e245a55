// Dynamic int8 rows by 2-bit blocks, by SVE's int8 matrix instructions.
#include "ukernel/gemm/rows_blocks_svei8mm.h"

namespace quern::ukernel {
namespace {

static constexpr auto kRows = MakeSveI8mmBlocks<Format::kI8d, Format::kU2>();

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
