// Blocks along K, of MatMulNBits and GGUF, compiled for AVX-512.
#include "ukernel/pack/pack_blocks.h"

namespace quern::ukernel {
namespace {

static constexpr BlockPackers kRows = MakeBlockPackers(0.1f);

}  // namespace

extern const KernelList<PackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<PackKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
