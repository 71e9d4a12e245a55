// Names and choice of the elementwise rows.
#include "ukernel/elementwise.h"

namespace quern::ukernel {

KernelName Name(const ElementwiseKernel& row) {
  KernelName name;
  size_t at = 0;
  for (const char* part : {"elementwise_any_", row.isa.name}) {
    while (*part && at + 1 < sizeof(name.text)) name.text[at++] = *part++;
  }
  return name;
}

const ElementwiseKernel* SelectElementwiseRow(const CpuFacts& cpu) {
  const ElementwiseKernel* best = nullptr;
  for (const KernelList<ElementwiseKernel>* list : AllElementwiseKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const ElementwiseKernel& row = list->rows[i];
      if (!row.unary || !IsaRunsOn(row.isa, cpu)) continue;
      if (!best || row.vector_bytes > best->vector_bytes) best = &row;
    }
  }
  return best;
}

}  // namespace quern::ukernel
