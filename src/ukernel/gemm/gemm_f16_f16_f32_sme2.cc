// float16 products on SME2: outer products of pairs along K, summed in float32.
#include "ukernel/gemm/tile_sme.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/loads_sme2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun = TileSme<Loads, float16_t>::Run;
#else
static constexpr GemmRun kRun = nullptr;
#endif

static constexpr GemmKernel kRows[] = {SmeRow(Format::kF16, kF16SmePanels, kF16Sme, 0.0f, kRun)};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
