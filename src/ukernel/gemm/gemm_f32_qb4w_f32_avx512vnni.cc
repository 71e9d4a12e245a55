// A few float32 rows by 4-bit blocks, as three bytes of each element, on AVX512-VNNI.
#include "ukernel/gemm/tile_f32_blocks_split.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_blocks_avx512vnni.h"
#include "ukernel/gemm/numbers_avx512.h"
#endif

namespace quern::ukernel {
namespace {

constexpr int kMr = 2, kNr = 256;
#if QUERN_ISA_HERE
using Split = F32BlocksSplit<BlockDot<Format::kU4>, kMr, kNr, RunF32BlocksFew<Numbers, Format::kU4, kMr, kNr>>;
#else
struct Split {
  struct Scratch {};
  static constexpr GemmRun Run = nullptr;
};
#endif

static constexpr GemmKernel kRows[] = {
    F32BlocksSplitRow<Split>(F32BlocksFewRow<kMr, kNr>(
        Format::kU4,
        {.engine = Engine::kVector512, .step_row = 245, .step_load = 35, .step_min = 280, .row = 80, .tile = 400},
        Split::Run)),
};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
