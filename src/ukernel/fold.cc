// Names and choice of the fold rows.
#include "ukernel/fold.h"

namespace quern::ukernel {

KernelName Name(const FoldKernel& row) {
  KernelName name;
  size_t at = 0;
  for (const char* part : {"fold_any_", row.isa.name}) {
    while (*part && at + 1 < sizeof(name.text)) name.text[at++] = *part++;
  }
  return name;
}

const FoldKernel* SelectFoldRow(const CpuFacts& cpu) {
  const FoldKernel* best = nullptr;
  for (const KernelList<FoldKernel>* list : AllFoldKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const FoldKernel& row = list->rows[i];
      if (!row.f64.fold || !IsaRunsOn(row.isa, cpu)) continue;
      if (!best || row.vector_bytes > best->vector_bytes) best = &row;
    }
  }
  return best;
}

}  // namespace quern::ukernel
