// Steps of Fourier transforms for the baseline of the target: SSE2 on x86-64, NEON on AArch64.
#include "ukernel/fourier.h"
#include "ukernel/fourier/loops_fourier.h"

namespace quern::ukernel {
namespace {

static constexpr FourierKernel kRows[] = {FourierRow<4>(kIsa)};

}  // namespace

extern const KernelList<FourierKernel> QUERN_KERNEL_LIST;
constinit const KernelList<FourierKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
