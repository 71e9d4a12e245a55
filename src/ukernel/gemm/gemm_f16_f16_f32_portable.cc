// f16 products by conversion in portable C++: float32 multiplications and additions in the order of k, chains of 256 k
// added up.
#include "ukernel/gemm/half_portable.h"

namespace quern::ukernel {
namespace {

// Widening a vector of weights takes a dozen instructions.
constexpr GemmKernel Tile(uint16_t kr, GemmRun run) {
  return TileHalfRow(Format::kF16, Format::kF16, 3, 16, kr,
                     {.engine = Engine::kScalar,
                      .step_row = kr == 1 ? 6.0f : 12.0f + 3.0f * 8 / 3,
                      .step_load = 0.5f,
                      .step_min = kr == 1 ? 4.0f : 8.0f + 3.0f * 8,
                      .row = 8,
                      .tile = 40},
                     run);
}

static constexpr GemmKernel kRows[] = {
    Tile(1, DispatchTileHalf<Vector, LhsWidened<Format::kF16>, WeightsF32<Vector>, 3, 1>),
    Tile(2, DispatchTileHalf<Vector, LhsWidened<Format::kF16>, WeightsHalf<Format::kF16>, 3, 1>),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
