// float32 products on SVE.
#include "ukernel/gemm/tile_sve.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun8x2 = DispatchTileSve<float, float, 8, 1>;
static constexpr GemmRun kRun6x4 = DispatchTileSve<float, float, 6, 2>;
#else
static constexpr GemmRun kRun8x2 = nullptr, kRun6x4 = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    SveRow(Format::kF32, kF32Sve, 8, 2, 0.98f, kRun8x2),
    SveRow(Format::kF32, kF32Sve, 6, 4, 0.97f, kRun6x4),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
