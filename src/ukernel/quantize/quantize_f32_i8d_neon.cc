// Dynamically quantized int8 from float32 on NEON.
#include "ukernel/layouts_arm.h"
#include "ukernel/quantize/i8d_rows.h"

#if QUERN_ISA_HERE
#include "ukernel/quantize/i8d_loops_neon.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr auto kRun = PackI8d<NeonLoops>;
#else
static constexpr decltype(LhsPackKernel::run) kRun = nullptr;
#endif

static constexpr LhsPackKernel kRows[] = {
    I8dRow(kI8dRows, 0.9f, kRun),
    I8dRow(kI8dPairs, 1.0f, kRun),
    I8dRow(I8SmePanels(Format::kI8d), 1.2f, kRun),
    I8dRow(I8SmeBlockPanels(Format::kI8d), 1.2f, kRun),
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
