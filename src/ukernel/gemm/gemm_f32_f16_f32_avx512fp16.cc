// float32 rows by float16 weights by VFMADDPH: rows become float16, sums are those of gemm_f16_f16_f32_avx512fp16.cc.
#include "ukernel/gemm/rows_avx512fp16.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {
    NarrowedFp16(TileFp16(8, 48, kRun8x48)),
    NarrowedFp16(TileFp16(6, 64, kRun6x64)),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
