// float32 rows by blocks of uint8, on AVX2: weights become float32 in registers for few rows, by a block transform for
// many.
#include "ukernel/gemm/tile_f32_blocks_few.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/numbers_avx2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun2x64 = RunF32BlocksFew<Numbers, Format::kU8, 2, 64>;
static constexpr GemmRun kRun6x16 = DispatchTileFma<IntVector, 6, 1>;
#else
static constexpr GemmRun kRun2x64 = nullptr, kRun6x16 = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    F32BlocksFewRow<2, 64>(
        Format::kU8, {.engine = Engine::kVector, .step_row = 26, .step_min = 41, .row = 20, .tile = 100}, kRun2x64),
    F32BlocksRow(Format::kU8, 6, 16, true,
                 {.engine = Engine::kVector, .step_row = 1, .step_load = 0.05f, .step_min = 2, .row = 6, .tile = 30},
                 kRun6x16),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
