// Names and choice of the fold rows.
#include "ukernel/fold.h"

#include "ukernel/widest_row.h"

namespace quern::ukernel {

KernelName Name(const FoldKernel& row) { return NameOfIsaRow("fold_any", row.isa); }

const FoldKernel* SelectFoldRow(const CpuFacts& cpu) {
  return WidestRow(
      AllFoldKernels(), KernelGroup::kFold, cpu, [](const FoldKernel& row) { return row.f64.fold; },
      [](const FoldKernel& row) { return row.vector_bytes; });
}

}  // namespace quern::ukernel
