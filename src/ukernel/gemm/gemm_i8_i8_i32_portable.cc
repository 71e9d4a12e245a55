// Signed int8 by int8 weights in portable C++, int32 accumulators.
#include "ukernel/gemm/dot_i8_portable.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {
    TileI8Row(kIsa, Format::kI8, 2, 16, false, 8,
              {.engine = Engine::kScalar, .step_row = 10, .step_min = 8, .row = 20, .tile = 40},
              DispatchTileI8<DotPortable<true>, 2, 1>),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
