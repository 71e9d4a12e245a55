// int8 rows in blocks of 32 by int8 blocks, on AMX.
#include "ukernel/gemm/dot_blocks_amxint8.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {AmxI8BlocksRow<Format::kI8, Format::kI8b>()};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
