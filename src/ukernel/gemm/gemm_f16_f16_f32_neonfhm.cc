// float16 products on NEON with FMLAL: multiplied as they are, summed in float32.
#include "ukernel/gemm/rows_f32_neon.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/operands_f16_neonfhm.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun8x8 = DispatchTileFma<Vector, 8, 1, WidenF16<1>>;
static constexpr GemmRun kRun6x16 = DispatchTileFma<Vector, 6, 2, WidenF16<1>>;
static constexpr GemmRun kRunSmeUnit = RunSmeUnit<Vector, 4, WidenF16<2>>;
#else
static constexpr GemmRun kRun8x8 = nullptr, kRun6x16 = nullptr, kRunSmeUnit = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    NeonTile(Format::kF16, kF16x8, 8, 8, 1.05f, kRun8x8),
    NeonTile(Format::kF16, kF16x8, 6, 16, 1.0f, kRun6x16),
    NeonSmeUnit(Format::kF16, kF16Sme, 4, kRunSmeUnit),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
