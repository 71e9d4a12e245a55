// Names and choice of the vector rows.
#include "ukernel/vector.h"

namespace quern::ukernel {

KernelName Name(const VectorKernel& row) {
  KernelName name;
  size_t at = 0;
  for (const char* part : {"vector_f32_", row.isa.name}) {
    while (*part && at + 1 < sizeof(name.text)) name.text[at++] = *part++;
  }
  return name;
}

const VectorKernel* SelectVectorRow(const CpuFacts& cpu) {
  const VectorKernel* best = nullptr;
  for (const KernelList<VectorKernel>* list : AllVectorKernels()) {
    for (size_t i = 0; i < list->count; ++i) {
      const VectorKernel& row = list->rows[i];
      if (!row.unary || !IsaRunsOn(row.isa, cpu)) continue;
      if (!best || row.lanes > best->lanes) best = &row;
    }
  }
  return best;
}

}  // namespace quern::ukernel
