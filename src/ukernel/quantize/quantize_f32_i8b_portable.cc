// int8 rows in blocks of 32, and Arm's panels of them, from float32, for the baseline of the target.
#include "ukernel/quantize/i8b_rows.h"

namespace quern::ukernel {
namespace {

static constexpr LhsPackKernel kRows[] = {
    I8bRow(4.1f, PackI8bRows<PlainLoops>),
    I8bPanelsRow(kI8bPairs, 5.0f, PackI8bPanels<PlainLoops>),
    I8bPanelsRow(I8SmeBlockPanels(Format::kI8b), 5.0f, PackI8bPanels<PlainLoops>),
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
