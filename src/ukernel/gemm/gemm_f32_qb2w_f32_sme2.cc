// float32 rows by 2-bit blocks on SME2: weights become float32 by a block transform.
#include "ukernel/gemm/rows_f32_blocks_sme2.h"

namespace quern::ukernel {
namespace {

static constexpr auto kRows = MakeSmeF32Blocks(Format::kU2);

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
