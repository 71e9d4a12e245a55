// float32 rows by 2-bit blocks, on AVX-512: weights become float32 in registers for few rows, by a block transform for
// many.
#include "ukernel/gemm/tile_f32_blocks_few.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/numbers_avx512.h"
#include "ukernel/gemm/tile_f32_pairs.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun4x64 = RunF32Pairs<Numbers, 4, 64>;
static constexpr GemmRun kRun8x48 = DispatchTileFma<HalvedVector, 8, 3>;
#else
static constexpr GemmRun kRun4x64 = nullptr, kRun8x48 = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    F32BlocksFewRow<4, 64>(
        Format::kU2, {.engine = Engine::kVector512, .step_row = 38, .step_min = 35, .row = 20, .tile = 100}, kRun4x64),
    WithNarrow(F32BlocksRow(
        Format::kU2, 8, 48, true,
        {.engine = Engine::kVector512, .step_row = 1.5f, .step_load = 0.05f, .step_min = 4.5f, .row = 8, .tile = 30},
        kRun8x48)),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
