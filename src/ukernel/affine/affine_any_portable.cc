// Rows of numbers stored with a scale and a zero point, for the baseline of the target: SSE2 on x86-64, NEON on
// AArch64.
#include "ukernel/affine.h"
#include "ukernel/affine/affine_any.h"

namespace quern::ukernel {
namespace {

static constexpr AffineKernel kRows[] = {AffineRow(kIsa, 16)};

}  // namespace

extern const KernelList<AffineKernel> QUERN_KERNEL_LIST;
constinit const KernelList<AffineKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
