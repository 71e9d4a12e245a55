// float16 by float16 products on NEON: converted as they are loaded, multiplied and summed in float32.
#include "ukernel/gemm/rows_f32_neon.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/operands_f16_neon.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
using Operands = ConvertF16<float16_t>;
static constexpr GemmRun kRun8x8 = DispatchTileFma<Vector, 8, 1, Operands>;
static constexpr GemmRun kRun4x16 = DispatchTileFma<Vector, 4, 2, Operands>;
#else
static constexpr GemmRun kRun8x8 = nullptr, kRun4x16 = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    // Conversions take the slots of a fourth to a fifth of the multiply-adds.
    NeonTile(Format::kF16, kF16x8, 8, 8, 1.25f, kRun8x8),
    NeonTile(Format::kF16, kF16x8, 4, 16, 1.3f, kRun4x16),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
