// float32 products as six products of bf16 terms on AMX, closer than a chain of float32 multiply-adds: rows come split
// and packed, weights pass a block transform.
#include "ukernel/gemm/tile_amx_float.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun = RunAmx<ProductBf16, 3>;
#else
static constexpr GemmRun kRun = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    AmxSplitRow(Format::kBf16x3, kBf16Terms3Panels, kBf16Terms3x16, Precision::kFp32, 6, kRun),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
