// float32 rows to panels of K by rows: SME's left side.
#include "ukernel/quantize/lhs_panels.h"

namespace quern::ukernel {
namespace {

static constexpr LhsPackKernel kRows[] = {
    {.isa = kIsa,
     .layout = kF32SmePanels,
     .source = Format::kF32,
     .forms = kLhsRows | kLhsTaps | kLhsRowPointers,
     .cycles_per_element = 0.7f,
     .run = PackPanels},
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
