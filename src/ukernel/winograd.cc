// Names and choice of the Winograd rows; the transform of weights.
#include "ukernel/winograd.h"

#include "ukernel/widest_row.h"

namespace quern::ukernel {

KernelName Name(const WinogradKernel& row) { return NameOfIsaRow("winograd_f32", row.isa); }

const WinogradKernel* SelectWinogradRow(const CpuFacts& cpu) {
  return WidestRow(
      AllWinogradKernels(), KernelGroup::kWinograd, cpu, [](const WinogradKernel& row) { return row.input; },
      [](const WinogradKernel& row) { return row.lanes; });
}

void TransformWinogradWeights(const double w[9], double components[kWinogradComponents]) {
  // G has the rows (1, 0, 0), (1/2, 1/2, 1/2), (1/2, -1/2, 1/2), (0, 0, 1).
  const auto transform = [](const double* v, size_t step, double* to, size_t to_step) {
    const double ends = v[0] + v[2 * step], middle = v[step];
    to[0] = v[0];
    to[to_step] = (ends + middle) / 2;
    to[2 * to_step] = (ends - middle) / 2;
    to[3 * to_step] = v[2 * step];
  };
  double half[12];  // 4 x 3
  for (size_t c = 0; c < 3; ++c) transform(w + c, 3, half + c, 3);
  for (size_t r = 0; r < 4; ++r) transform(half + 3 * r, 1, components + 4 * r, 1);
}

}  // namespace quern::ukernel
