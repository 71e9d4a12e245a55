// bf16 products by VDPBF16PS: of each pair of k the odd one, then the even one is added by a fused multiply-add, chains
// of 256 k are added up. Operands and results below 2^-126 count as zero.
#include "ukernel/gemm/tile_half.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/half_pairs_avx512.h"
#include "ukernel/gemm/vector_f32_avx512.h"
#include "ukernel/vector_bf16.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
struct WeightsPairs : WeightsInF32<Vector>, HalfPairs {
  static __m512 Dot(__m512 acc, __m512i x, __m512i w) { return DotBf16Pairs(acc, w, x); }
};
static constexpr GemmRun kRun8x48 = DispatchTileHalf<Vector, LhsHalf<Format::kBf16>, WeightsPairs, 8, 3>;
static constexpr GemmRun kRun6x64 = DispatchTileHalf<Vector, LhsHalf<Format::kBf16>, WeightsPairs, 6, 4>;
#else
static constexpr GemmRun kRun8x48 = nullptr, kRun6x64 = nullptr;
#endif

constexpr GemmKernel Tile(uint16_t mr, uint16_t nr, GemmRun run) {
  const float units = nr / 16.0f;
  return TileHalfRow(Format::kBf16, Format::kBf16, mr, nr,
                     {.engine = Engine::kVector512,
                      .step_row = units / 2,
                      .step_load = 0.25f,
                      .step_min = units * 1.5f,
                      .row = units * 2 + 4,
                      .tile = 40},
                     run);
}

static constexpr GemmKernel kRows[] = {
    Tile(8, 48, kRun8x48),
    Tile(6, 64, kRun6x64),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
