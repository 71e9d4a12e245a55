// int8 rows in blocks of 32, and SME's panels of them, from float32, for the baseline of the target.
#include "ukernel/quantize/i8b_rows.h"

namespace quern::ukernel {
namespace {

static constexpr LhsPackKernel kRows[] = {I8bRow(4.1f, PackI8bRows<PlainLoops>), I8bPanelsRow(5.0f)};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
