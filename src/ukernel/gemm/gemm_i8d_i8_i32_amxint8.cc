// Dynamically quantized int8 rows by int8 weights on AMX, int32 accumulators.
#include "ukernel/gemm/tile_amx_i8.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {TileAmxI8Row<true>(kIsa, Format::kI8d, kI8dPanels16)};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
