// Steps of Fourier transforms, AVX2.
#include "ukernel/fourier.h"

#if QUERN_ISA_HERE
#include "ukernel/fourier/loops_fourier.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr FourierKernel kRows[] = {FourierRow<8>(kIsa)};
#else
static constexpr FourierKernel kRows[] = {{.isa = kIsa, .lanes = 8}};
#endif

}  // namespace

extern const KernelList<FourierKernel> QUERN_KERNEL_LIST;
constinit const KernelList<FourierKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
