// Names and choice of the affine rows.
#include "ukernel/affine.h"

#include "ukernel/widest_row.h"

namespace quern::ukernel {

KernelName Name(const AffineKernel& row) { return NameOfIsaRow("affine_any", row.isa); }

const AffineKernel* SelectAffineRow(const CpuFacts& cpu) {
  return WidestRow(
      AllAffineKernels(), KernelGroup::kAffine, cpu, [](const AffineKernel& row) { return row.quantize; },
      [](const AffineKernel& row) { return row.vector_bytes; });
}

}  // namespace quern::ukernel
