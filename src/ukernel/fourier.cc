// Names and choice of the Fourier rows.
#include "ukernel/fourier.h"

#include "ukernel/widest_row.h"

namespace quern::ukernel {

KernelName Name(const FourierKernel& row) { return NameOfIsaRow("fourier_f32", row.isa); }

const FourierKernel* SelectFourierRow(const CpuFacts& cpu, size_t lines) {
  // Narrow rows leave fewer lanes empty, and wide ones need fewer steps.
  const auto fitness = [lines](const FourierKernel& row) {
    return row.lanes >= lines ? (size_t{1} << 16) / row.lanes + (size_t{1} << 16) : size_t{row.lanes};
  };
  return WidestRow(
      AllFourierKernels(), KernelGroup::kFourier, cpu, [](const FourierKernel& row) { return row.pass; }, fitness);
}

}  // namespace quern::ukernel
