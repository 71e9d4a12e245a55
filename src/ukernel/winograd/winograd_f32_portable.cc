// Transforms of Winograd convolutions for the baseline of the target: SSE2 on x86-64, NEON on AArch64.
#include "ukernel/winograd.h"
#include "ukernel/winograd/loops_winograd.h"

namespace quern::ukernel {
namespace {

static constexpr WinogradKernel kRows[] = {WinogradRow<4>(kIsa)};

}  // namespace

extern const KernelList<WinogradKernel> QUERN_KERNEL_LIST;
constinit const KernelList<WinogradKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]),
                                                             QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
