// Dynamic int8 rows by 4-bit weights with a scale per channel, on SME2: weights become int8 by a block transform.
#include "ukernel/gemm/rows_i8_sme.h"

#if QUERN_ISA_HERE
#include "ukernel/gemm/dot_i8_sme2.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr GemmRun kRun = RunSme<DotSme2, true>;
#else
static constexpr GemmRun kRun = nullptr;
#endif

static constexpr auto kRows = MakeSmeFours(2, kRun);

}  // namespace

extern const KernelList<GemmKernel> QUERN_KERNEL_LIST;
constinit const KernelList<GemmKernel> QUERN_KERNEL_LIST{kRows.rows, sizeof(kRows.rows) / sizeof(kRows.rows[0]),
                                                         QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
