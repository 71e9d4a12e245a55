// float32 rows by 2-bit blocks, on AVX2: one row as three bytes of each element; few by weights that become float32 in
// registers, many by a block transform.
#include "ukernel/gemm/rows_split_avx2.h"

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun2x64 = RunF32BlocksFew<Numbers, Format::kU2, 2, 64>;
static constexpr GemmRun kRun6x16 = DispatchTileFma<IntVector, 6, 1>;
#else
static constexpr GemmRun kRun2x64 = nullptr, kRun6x16 = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    SplitRow<Format::kU2, 1>(
        {.engine = Engine::kVector, .step_row = 680, .step_load = 80, .step_min = 760, .row = 80, .tile = 400}),
    F32BlocksFewRow<2, 64>(
        Format::kU2, {.engine = Engine::kVector, .step_row = 86, .step_min = 115, .row = 20, .tile = 100}, kRun2x64),
    F32BlocksRow(Format::kU2, 6, 16, true,
                 {.engine = Engine::kVector, .step_row = 1, .step_load = 0.05f, .step_min = 2, .row = 6, .tile = 30},
                 kRun6x16),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
