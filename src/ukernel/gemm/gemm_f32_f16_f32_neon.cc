// float32 by float16 products on NEON: converted as they are loaded, multiplied and summed in float32.
#include "ukernel/gemm/rows_f32_neon.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/operands_f16_neon.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
using Operands = ConvertF16<float>;
static constexpr GemmRun kRun8x8 = DispatchTileFma<Vector, 8, 1, Operands>;
static constexpr GemmRun kRun4x16 = DispatchTileFma<Vector, 4, 2, Operands>;
static constexpr GemmRun kRunSmeUnit = RunSmeUnit<Vector, 4, Operands>;
#else
static constexpr GemmRun kRun8x8 = nullptr, kRun4x16 = nullptr, kRunSmeUnit = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    // Conversions take the slots of a fourth to a fifth of the multiply-adds.
    NeonTile(Format::kF32, kF16x8, 8, 8, 1.15f, kRun8x8),
    NeonTile(Format::kF32, kF16x8, 4, 16, 1.25f, kRun4x16),
    NeonSmeUnit(Format::kF32, kF16SmeLines, 4, kRunSmeUnit, 1.25f),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
