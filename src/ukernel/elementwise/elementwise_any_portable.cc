// Elementwise loops of every number type for the baseline of the target: SSE2 on x86-64, NEON on AArch64.
#include "ukernel/elementwise.h"
#include "ukernel/elementwise/binary_rows.h"
#include "ukernel/elementwise/unary_rows.h"
#include "ukernel/softmax_loops.h"

namespace quern::ukernel {
namespace {

static constexpr ElementwiseKernel kRows[] = {{.isa = kIsa,
                                               .vector_bytes = 16,
                                               .unary = FindUnary,
                                               .binary = FindBinary,
                                               .choose = FindChoice,
                                               .softmax = RunSoftmax<double>}};

}  // namespace

extern const KernelList<ElementwiseKernel> QUERN_KERNEL_LIST;
constinit const KernelList<ElementwiseKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]),
                                                                QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
