// Dynamic int8 rows by 8-bit blocks with zero points, on SME.
#include "ukernel/gemm/rows_blocks_sme.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/slices_sme.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun = TileBlocksSme<Slices, Format::kI8d, Format::kU8>::Run;
#else
static constexpr GemmRun kRun = nullptr;
#endif

static constexpr auto kRows = SmeBlocksRow(Format::kI8d, Format::kU8, 8, 96, kRun);

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
