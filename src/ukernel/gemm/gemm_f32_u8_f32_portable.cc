// float32 rows by blocks of uint8, in portable C++: weights become float32 in registers.
#include "ukernel/gemm/tile_f32_blocks.h"
#include "ukernel/gemm/vector_i32_portable.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {
    F32BlocksRow(Format::kU8, 2, 16, false,
                 {.engine = Engine::kScalar, .step_row = 24, .step_min = 34.8f, .row = 20, .tile = 40},
                 DispatchTileF32Blocks<IntVector, Format::kU8, 2, 1>),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
