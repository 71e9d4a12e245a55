// Folds, places of extremes and running sums, AVX2.
#include "ukernel/fold.h"

#if QUERN_ISA_HERE
#include "ukernel/fold/fold_any.h"
#endif

namespace quern::ukernel {
namespace {

#if QUERN_ISA_HERE
static constexpr FoldKernel kRows[] = {FoldRow(kIsa, 32)};
#else
static constexpr FoldKernel kRows[] = {{.isa = kIsa, .vector_bytes = 32}};
#endif

}  // namespace

extern const KernelList<FoldKernel> QUERN_KERNEL_LIST;
constinit const KernelList<FoldKernel> QUERN_KERNEL_LIST{kRows, sizeof(kRows) / sizeof(kRows[0]), QUERN_KERNEL_STEM};

}  // namespace quern::ukernel
