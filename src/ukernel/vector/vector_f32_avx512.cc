// Float32 vector loops, AVX-512.
#include "ukernel/vector.h"

#if QUERN_ISA_HERE
#include "ukernel/vector/loops_f32.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr VectorKernel kRows[] = {VectorRow(kIsa, 16)};
#else
static constexpr VectorKernel kRows[] = {{.isa = kIsa, .lanes = 16}};
#endif

}  // namespace

extern const KernelList<VectorKernel> QUERN_KERNEL_LIST;
constinit const KernelList<VectorKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
