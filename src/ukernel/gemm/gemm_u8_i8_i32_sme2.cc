// Unsigned int8 by int8 weights on SME2, int32 accumulators.
#include "ukernel/gemm/rows_i8_sme.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_sme2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun = RunSme<DotSme2, false>;
#else
static constexpr GemmRun kRun = nullptr;
#endif

static constexpr auto kRows = MakeSmeRows(Format::kU8, 2, kRun);

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
