// float32 products in portable C++: 4-lane vectors that every target has, multiply and add apart.
#include "ukernel/gemm/stream_fma.h"
#include "ukernel/gemm/tile_fma.h"
#include "ukernel/gemm/vector_f32_portable.h"

namespace quern::ukernel {
namespace {

constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, GemmRun run) {
  const float vectors = nr / 4.0f;
  return TileF32Row(
      kF32x16, mr, nr,
      {.engine = Engine::kScalar, .step_row = vectors * 1.5f, .step_min = vectors, .row = vectors * 2, .tile = 30},
      run);
}

// Three rows: 12 accumulators and the broadcast value fit the 16 registers of baseline x86-64.
static constexpr GemmKernel kRows[] = {
    Tile(3, 16, DispatchTileFma<Vector, 3, 1>),
    StreamF32Row(kF32x16, Engine::kScalar, 2, 32, 4, RunStreamFma<Vector, 2>),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
