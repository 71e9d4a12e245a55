// Elementwise loops of every number type, AVX-512.
#include "ukernel/elementwise.h"

#if QUERN_ISA_HERE
#include "ukernel/elementwise/binary_rows.h"
#include "ukernel/elementwise/unary_rows.h"
#include "ukernel/softmax_loops.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr ElementwiseKernel kRows[] = {{.isa = kIsa,
                                               .vector_bytes = 64,
                                               .unary = FindUnary,
                                               .binary = FindBinary,
                                               .choose = FindChoice,
                                               .softmax = RunSoftmax<double>}};
#else
static constexpr ElementwiseKernel kRows[] = {{.isa = kIsa, .vector_bytes = 64}};
#endif

}  // namespace

extern const KernelList<ElementwiseKernel> QUERN_KERNEL_LIST;
constinit const KernelList<ElementwiseKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]),
                                                                QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
