// Unsigned int8 by int8 weights on AMX, int32 accumulators.
#include "ukernel/gemm/tile_amx_i8.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {TileAmxI8Row<false>(kIsa, Format::kU8, kU8Panels16)};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
