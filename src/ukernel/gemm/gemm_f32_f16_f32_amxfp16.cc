// float32 rows by float16 weights on AMX: rows become float16, sums are float32.
#include "ukernel/gemm/tile_amx_float.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun = RunAmx<ProductF16, 1>;
#else
static constexpr GemmRun kRun = nullptr;
#endif

constexpr GemmKernel Narrowed(GemmKernel row) {
  row.lhs = Format::kF32;
  row.precision = Precision::kFp16;
  return row;
}

static constexpr GemmKernel kRows[] = {
    Narrowed(AmxHalfRow(Format::kF16, kF16Panels, kF16Pairs16, kRun)),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
