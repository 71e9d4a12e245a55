// bf16 products on SVE: BFMMLA on packed panels, BFDOT on few rows.
#include "ukernel/gemm/tile_sve.h"

#include "ukernel/gemm/tile_bf16_quads.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/quads_svebf16.h"

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
    Bf16QuadRow(kBf16SveQuads, kFusedSve, 0.25f, kRunMmla),
    Bf16DotRow(kBf16SveQuads, kFusedSve, 0.125f, kRunDot),

};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
