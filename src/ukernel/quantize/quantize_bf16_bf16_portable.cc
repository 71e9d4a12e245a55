// bf16 rows to panels of pairs or quads of k by rows: the left sides of SME's outer products and of BFMMLA.
#include "ukernel/layouts_arm.h"
#include "ukernel/quantize/panels.h"

namespace quern::ukernel {
namespace {

static constexpr LhsPackKernel kRows[] = {
    PanelRow(kBf16SmePanels, Format::kBf16, 0.35f, PackPanels<2, 4>),
    PanelRow(kBf16QuadPanels, Format::kBf16, 0.25f, PackPanels<2, 8>),
};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
