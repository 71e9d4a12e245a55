// Blocks along K, of MatMulNBits and GGUF, for the baseline of the target.
#include "ukernel/pack/pack_blocks.h"

namespace quern::ukernel {
namespace {

static constexpr BlockPackers kRows = MakeBlockPackers(0.4f);

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
