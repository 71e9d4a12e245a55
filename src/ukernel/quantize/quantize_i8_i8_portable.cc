// int8 rows to panels of groups of 4 k by rows: SME's left side.
#include "ukernel/layouts_arm.h"
#include "ukernel/quantize/lhs_panels.h"

namespace quern::ukernel {
namespace {

static constexpr LhsPackKernel kRows[] = {
    {.isa = kIsa,
     .layout = I8SmePanels(Format::kI8),
     .source = Format::kI8,
     .forms = kLhsRows | kLhsTaps | kLhsRowPointers,
     .cycles_per_element = 0.2f,
     .run = PackPanels},
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
