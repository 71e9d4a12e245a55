// Folds, places of extremes and running sums for the baseline of the target: SSE2 on x86-64, NEON on AArch64.
#include "ukernel/fold.h"
#include "ukernel/fold/fold_any.h"

namespace quern::ukernel {
namespace {

static constexpr FoldKernel kRows[] = {FoldRow(kIsa, 16)};

}  // namespace

extern const KernelList<FoldKernel> QUERN_KERNEL_LIST;
constinit const KernelList<FoldKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
