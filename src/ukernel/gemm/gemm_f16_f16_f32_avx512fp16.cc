// f16 products by VFMADDPH: even and odd k are summed apart in float16, chains of 32 k added up in float32.
#include "ukernel/gemm/rows_avx512fp16.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {
    TileFp16(8, 48, kRun8x48),
    TileFp16(6, 64, kRun6x64),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
