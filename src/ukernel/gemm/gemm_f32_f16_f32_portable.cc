// float32 rows by f16 weights by conversion in portable C++: float32 multiplications and additions. Few rows widen
// weights as they go, in the order of k, chains of 256 k added up; many take weights that a block transform widened,
// in the order of k.
#include "ukernel/gemm/half_portable.h"
#include "ukernel/gemm/tile_fma.h"

namespace quern::ukernel {
namespace {

// Taken by name alone: without an instruction that converts them, weights are better widened once, when they are
// packed.
constexpr GemmKernel OnlyForced(GemmKernel row) {
  row.only_forced = true;
  return row;
}

static constexpr GemmKernel kRows[] = {
    OnlyForced(WidenedRow(Format::kF32, Format::kF16, 3, 16,
                          {.engine = Engine::kScalar, .step_row = 6, .step_min = 4, .row = 8, .tile = 30},
                          DispatchTileFma<Vector, 3, 1>)),
    // Widening a vector of weights takes a dozen instructions.
    OnlyForced(
        TileHalfRow(Format::kF32, Format::kF16, 3, 16,
                    {.engine = Engine::kScalar, .step_row = 24, .step_load = 0, .step_min = 64, .row = 10, .tile = 40},
                    DispatchTileHalf<Vector, LhsF32, WeightsHalf<Format::kF16>, 3, 1>)),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
