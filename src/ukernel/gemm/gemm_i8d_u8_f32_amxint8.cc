// Dynamic int8 rows by blocks of uint8, on AMX.
#include "ukernel/gemm/dot_blocks_amxint8.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {AmxI8BlocksRow<Format::kU8, Format::kI8d>()};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
