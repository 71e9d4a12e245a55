// float16 products on SVE: converted as they are loaded, multiplied and summed in float32.
#include "ukernel/gemm/tile_sve.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun8x2 = DispatchTileSve<float16_t, float16_t, 8, 1>;
static constexpr GemmRun kRun4x4 = DispatchTileSve<float16_t, float16_t, 4, 2>;
#else
static constexpr GemmRun kRun8x2 = nullptr, kRun4x4 = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    SveRow(Format::kF16, kF16Sve, 8, 2, 1.3f, kRun8x2),
    SveRow(Format::kF16, kF16Sve, 4, 4, 1.3f, kRun4x4),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
