// float32 rows to panels of K by rows: SME's left side.
#include "ukernel/quantize/panels.h"

namespace quern::ukernel {
namespace {

static constexpr LhsPackKernel kRows[] = {PanelRow(kF32SmePanels, Format::kF32, 0.7f, PackPanels<4, 4>)};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
