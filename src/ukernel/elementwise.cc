// Names and choice of the elementwise rows.
#include "ukernel/elementwise.h"

#include "ukernel/widest_row.h"

namespace quern::ukernel {

KernelName Name(const ElementwiseKernel& row) { return NameOfIsaRow("elementwise_any", row.isa); }

const ElementwiseKernel* SelectElementwiseRow(const CpuFacts& cpu) {
  return WidestRow(
      AllElementwiseKernels(), KernelGroup::kElementwise, cpu, [](const ElementwiseKernel& row) { return row.unary; },
      [](const ElementwiseKernel& row) { return row.vector_bytes; });
}

}  // namespace quern::ukernel
