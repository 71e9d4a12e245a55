// int8 rows in blocks of 32, and panels of them, from float32, on NEON.
#include "ukernel/quantize/i8b_rows.h"

#if QUERN_ISA_HERE
#include "ukernel/quantize/i8d_loops_neon.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr auto kRun = PackI8bRows<NeonLoops>, kRunPanels = PackI8bPanels<NeonLoops>;
#else
static constexpr decltype(LhsPackKernel::run) kRun = nullptr, kRunPanels = nullptr;
#endif

static constexpr LhsPackKernel kRows[] = {
    I8bRow(1.2f, kRun),
    I8bPanelsRow(kI8bPairs, 1.3f, kRunPanels),
    I8bPanelsRow(I8SmeBlockPanels(Format::kI8b), 1.5f, kRunPanels),
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
