// Dynamically quantized int8 rows from float32, for the baseline of the target.
#include "ukernel/layouts_arm.h"
#include "ukernel/quantize/i8d_panels.h"

namespace quern::ukernel {
namespace {

static constexpr LhsPackKernel kRows[] = {
    I8dRow(kI8dRows, 3.0f, PackI8d<PlainLoops>),
    I8dRow(kI8dPanels16, 3.0f, PackI8dPanels<PlainLoops>),
    I8dRow(kI8dPairs, 3.5f, PackI8d<PlainLoops>),
    I8dRow(I8SmePanels(Format::kI8d), 4.0f, PackI8d<PlainLoops>),
    I8dRow(I8SmeBlockPanels(Format::kI8d), 4.0f, PackI8d<PlainLoops>),
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
