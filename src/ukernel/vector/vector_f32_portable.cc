// Float32 vector loops for the baseline of the target: SSE2 on x86-64, NEON on AArch64.
#include "ukernel/vector.h"
#include "ukernel/vector/loops_f32.h"

namespace quern::ukernel {
namespace {

static constexpr VectorKernel kRows[] = {VectorRow(kIsa, 4)};

}  // namespace

extern const KernelList<VectorKernel> QUERN_KERNEL_LIST;
constinit const KernelList<VectorKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
