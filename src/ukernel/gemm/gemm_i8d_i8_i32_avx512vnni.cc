// Dynamically quantized int8 rows by int8 weights on AVX512-VNNI, int32 accumulators.
#include "ukernel/gemm/tile_i8.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_vnni.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
using Dot = DotVnni<true>;
static constexpr GemmRun kRun12x32 = DispatchTileI8<Dot, 12, 2>;
static constexpr GemmRun kRun8x48 = DispatchTileI8<Dot, 8, 3>;
static constexpr GemmRun kRun16x16 = DispatchTileI8<Dot, 16, 1>;
#else
static constexpr GemmRun kRun12x32 = nullptr, kRun8x48 = nullptr, kRun16x16 = nullptr;
#endif

// Two instructions a cycle, a little for staging; a unit's line of 64 bytes comes out of L2 in about 1.5 cycles.
constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, GemmRun run) {
  const float units = nr / 16.0f;
  return TileI8Row(kIsa, Format::kI8d, mr, nr, true, 4,
                   {.engine = Engine::kVector512,
                    .step_row = units / 2 + 0.05f,
                    .step_min = units * 1.5f,
                    .row = units * 3 + 4,
                    .tile = 40},
                   run);
}

static constexpr GemmKernel kRows[] = {
    Tile(12, 32, kRun12x32),
    Tile(8, 48, kRun8x48),
    Tile(16, 16, kRun16x16),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
