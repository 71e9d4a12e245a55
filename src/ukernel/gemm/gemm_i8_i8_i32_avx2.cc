// Signed int8 by int8 weights on AVX2: widened to 16 bits, so that no sum saturates; int32 accumulators.
#include "ukernel/gemm/tile_i8.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_avx2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun4x256 = DispatchTileI8<DotAvx2<true>, 4, 16, 1>;
#else
static constexpr GemmRun kRun4x256 = nullptr;
#endif

// A multiply-add of pairs and an addition, twice, for 8 columns of a group of 4 k; widening the weights is shared.
static constexpr GemmKernel kRows[] = {
    WithPairs<4, 8>(TileI8Row(kIsa, Format::kI8, 4, 256, true, 8,
                              {.engine = Engine::kVector, .step_row = 41, .step_min = 64, .row = 144, .tile = 110},
                              kRun4x256)),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
