// Dynamically quantized int8 rows from float32, compiled for AVX2.
#include "ukernel/quantize/i8d_panels.h"

namespace quern::ukernel {
namespace {

static constexpr LhsPackKernel kRows[] = {I8dRow(kI8dRows, 1.0f, PackI8d<PlainLoops>),
                                          I8dRow(kI8dPanels16, 1.0f, PackI8dPanels<PlainLoops>)};

}  // namespace

extern const KernelList<LhsPackKernel> QUERN_KERNEL_LIST;
constinit const KernelList<LhsPackKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
