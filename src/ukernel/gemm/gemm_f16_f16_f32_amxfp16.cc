// f16 products on AMX.
#include "ukernel/gemm/tile_amx_float.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun = RunAmx<ProductF16, 1>;
#else
static constexpr GemmRun kRun = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    AmxHalfRow(Format::kF16, kF16Panels, kF16Pairs16, kRun),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
