// float32 products as three products of bf16 terms on AMX: rows come split and packed, weights pass a block transform.
#include "ukernel/gemm/tile_amx_float.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun = RunAmx<ProductBf16, 2>;
#else
static constexpr GemmRun kRun = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    AmxSplitRow(Format::kBf16x2, kBf16Terms2Panels, kBf16Terms2x16, Precision::kFp32Fast, 3, kRun),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
