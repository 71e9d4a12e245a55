// bf16 products of few rows on NEON by units that are resident for SME: converted, multiplied and summed in float32.
#include "ukernel/gemm/rows_f32_neon.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/operands_bf16_neon.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRunSmeUnit = RunSmeUnit<Vector, 4, PairsBf16>;
#else
static constexpr GemmRun kRunSmeUnit = nullptr;
#endif

static constexpr GemmKernel kRows[] = {NeonSmeUnit(Format::kBf16, kBf16Sme, 4, kRunSmeUnit)};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
