// bf16 products by conversion in portable C++: float32 multiplications and additions. Few rows widen weights as they
// go, in the order of k, chains of 256 k added up; many take weights that a block transform widened, in the order of
// k.
#include "ukernel/gemm/half_portable.h"
#include "ukernel/gemm/tile_fma.h"

namespace quern::ukernel {
namespace {

static constexpr GemmKernel kRows[] = {
    WidenedRow(Format::kBf16, Format::kBf16, 3, 16,
               {.engine = Engine::kScalar, .step_row = 6, .step_min = 4, .row = 8, .tile = 30},
               DispatchTileFma<Vector, 3, 1>),
    // Widening a vector of weights takes a shift or a mask.
    TileHalfRow(Format::kBf16, Format::kBf16, 3, 16,
                {.engine = Engine::kScalar, .step_row = 13, .step_load = 0.5f, .step_min = 24, .row = 10, .tile = 40},
                DispatchTileHalf<Vector, LhsWidened<Format::kBf16>, WeightsHalf<Format::kBf16>, 3, 1>),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
