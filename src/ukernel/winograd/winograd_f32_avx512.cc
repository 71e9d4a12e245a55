// Transforms of Winograd convolutions, AVX-512.
#include "ukernel/winograd.h"

#if QUERN_ISA_HERE
#include "ukernel/winograd/loops_winograd.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr WinogradKernel kRows[] = {WinogradRow<16>(kIsa)};
#else
static constexpr WinogradKernel kRows[] = {{.isa = kIsa, .lanes = 16}};
#endif

}  // namespace

extern const KernelList<WinogradKernel> QUERN_KERNEL_LIST;
constinit const KernelList<WinogradKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]),
                                                             QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
