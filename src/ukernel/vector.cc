// Names and choice of the vector rows.
#include "ukernel/vector.h"

#include "ukernel/widest_row.h"

namespace quern::ukernel {

KernelName Name(const VectorKernel& row) { return NameOfIsaRow("vector_f32", row.isa); }

const VectorKernel* SelectVectorRow(const CpuFacts& cpu) {
  return WidestRow(
      AllVectorKernels(), KernelGroup::kVector, cpu, [](const VectorKernel& row) { return row.unary; },
      [](const VectorKernel& row) { return row.lanes; });
}

}  // namespace quern::ukernel
