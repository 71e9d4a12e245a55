// float32 products on SME: outer products, summed in float32.
#include "ukernel/gemm/tile_sme.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/loads_sme.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun = TileSme<Loads, float>::Run;
#else
static constexpr GemmRun kRun = nullptr;
#endif

static constexpr GemmKernel kRows[] = {SmeRow(Format::kF32, kF32SmePanels, kF32Sme, 0.5f, kRun)};

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
