// bf16 products on NEON: BFMMLA on packed panels, BFDOT on few rows.
#include "ukernel/gemm/epilogue_f32.h"
#include "ukernel/gemm/tile_bf16_quads.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/quads_neonbf16.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRunMmla = DispatchMmla<Quads, 3>;
static constexpr GemmRun kRunDot = DispatchDot<Quads, 2, 2>;
#else
static constexpr GemmRun kRunMmla = nullptr, kRunDot = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    Bf16QuadRow(kBf16x8Quads, kFusedProductF32, 1.0f, kRunMmla),
    Bf16DotRow(kBf16x8Quads, kFusedProductF32, 0.5f, kRunDot),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
