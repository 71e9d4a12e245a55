// Rows of numbers stored with a scale and a zero point, AVX2 with FMA.
#include "ukernel/affine.h"

#if QUERN_ISA_HERE
#include "ukernel/affine/affine_any.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr AffineKernel kRows[] = {AffineRow(kIsa, 32)};
#else
static constexpr AffineKernel kRows[] = {{.isa = kIsa, .vector_bytes = 32}};
#endif

}  // namespace

extern const KernelList<AffineKernel> QUERN_KERNEL_LIST;
constinit const KernelList<AffineKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
