// int8 rows to panels of groups of 4 k by rows: SME's left side.
#include "ukernel/layouts_arm.h"
#include "ukernel/quantize/panels.h"

namespace quern::ukernel {
namespace {

static constexpr LhsPackKernel kRows[] = {PanelRow(I8SmePanels(Format::kI8), Format::kI8, 0.2f, PackPanels<1, 4>)};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
