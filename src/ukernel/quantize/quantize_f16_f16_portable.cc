// float16 rows to panels of pairs of k by rows: the left side of SME's outer products.
#include "ukernel/layouts_arm.h"
#include "ukernel/quantize/panels.h"

namespace quern::ukernel {
namespace {

static constexpr LhsPackKernel kRows[] = {PanelRow(kF16SmePanels, Format::kF16, 0.35f, PackPanels<2, 4>)};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
