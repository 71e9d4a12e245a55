// float32 rows by f16 weights by conversion on AVX-512: float32 multiply-adds. Few rows widen weights as they go, even
// and odd k summed apart, chains of 256 k added up; many take weights that a block transform widened, in the order of
// k.
#include "ukernel/gemm/rows_half_x86.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/half_avx512.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kWidened8x48 = DispatchTileFma<HalvedVector, 8, 3>;
static constexpr GemmRun kRun6x32 = DispatchTileHalf<Vector, LhsF32, WeightsF16, 6, 2>;
static constexpr GemmRun kRun2x64 = DispatchTileHalf<Vector, LhsF32, WeightsF16, 2, 4>;
#else
static constexpr GemmRun kWidened8x48 = nullptr, kRun6x32 = nullptr, kRun2x64 = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    WidenedAvx512(Format::kF32, Format::kF16, kWidened8x48),
    F16PairsAvx512(Format::kF32, 6, 32, kRun6x32),
    F16PairsAvx512(Format::kF32, 2, 64, kRun2x64),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
