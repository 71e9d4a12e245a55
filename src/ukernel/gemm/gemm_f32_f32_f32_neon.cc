// float32 products on NEON: units of 8 columns, four K values of each row loaded at once and used by lane.
#include "ukernel/gemm/rows_f32_neon.h"
#include "ukernel/gemm/stream_fma.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/vector_f32_neon.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun8x8 = DispatchTileFma<Vector, 8, 1>;
static constexpr GemmRun kRun6x16 = DispatchTileFma<Vector, 6, 2>;
static constexpr GemmRun kRunSmeUnit = RunSmeUnit<Vector, 6>;
static constexpr GemmRun kRunStream = RunStreamFma<Vector, 2>;
#else
static constexpr GemmRun kRun8x8 = nullptr, kRun6x16 = nullptr, kRunSmeUnit = nullptr, kRunStream = nullptr;
#endif

static constexpr GemmKernel kRows[] = {
    NeonTile(Format::kF32, kF32x8, 8, 8, 1.05f, kRun8x8),  // two loads of weights for 16 multiply-adds
    NeonTile(Format::kF32, kF32x8, 6, 16, 1.0f, kRun6x16),
    NeonSmeUnit(Format::kF32, kF32Sme, 6, kRunSmeUnit),
    StreamF32Row(kF32x8, Engine::kVector, 2, 32, 4, kRunStream),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
