// float32 rows by f16 weights by conversion on AVX2 with F16C: float32 multiply-adds. Few rows widen weights as they
// go, even and odd k summed apart, chains of 256 k added up; many take weights that a block transform widened, in the
// order of k.
#include "ukernel/gemm/rows_half_x86.h"
#include "ukernel/gemm/tile_fma.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/half_avx2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kWidened6x16 = DispatchTileFma<Vector, 6, 1>;
static constexpr GemmRun kRun2x16 = DispatchTileHalf<Vector, LhsF32, WeightsF16, 2, 1>;
#else
static constexpr GemmRun kWidened6x16 = nullptr, kRun2x16 = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    WidenedAvx2(Format::kF32, Format::kF16, kWidened6x16),
    F16PairsAvx2(Format::kF32, 2, 16, kRun2x16),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
