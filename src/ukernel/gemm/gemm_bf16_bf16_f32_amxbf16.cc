// bf16 products on AMX. Operands and results below 2^-126 count as zero.
#include "ukernel/gemm/tile_amx_float.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun = RunAmx<ProductBf16, 1>;
#else
static constexpr GemmRun kRun = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    AmxHalfRow(Format::kBf16, kBf16Panels, kBf16Pairs16, kRun),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
