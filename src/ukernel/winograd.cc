// Names and choice of the Winograd rows; the transform of weights.
#include "ukernel/winograd.h"

#include "ukernel/widest_row.h"

namespace quern::ukernel {
namespace {

constexpr double kG2[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
constexpr double kInverse2[3][4] = {{1, 0, 0, 0}, {0, 1, -1, 0}, {0, 0, 0, 1}};

// Row p of G is (1, p, p^2) / product of p's differences from the other points. Of the sum and the difference of a
// pair's components, the kernel's even and odd taps remain.
constexpr double kFar = 11.0 / 8, kNear = 3.0 / 8;
constexpr double kFarScale = 1 / (2 * kFar * (kFar * kFar - kNear * kNear));
constexpr double kNearScale = 1 / (2 * kNear * (kNear * kNear - kFar * kFar));
constexpr double kG3[5][3] = {{kFarScale, kFarScale* kFar, kFarScale* kFar* kFar},
                              {-kFarScale, kFarScale* kFar, -kFarScale* kFar* kFar},
                              {kNearScale, kNearScale* kNear, kNearScale* kNear* kNear},
                              {-kNearScale, kNearScale* kNear, -kNearScale* kNear* kNear},
                              {0, 0, 1}};
constexpr double kInverse3[3][5] = {{0.5 / kFarScale, -0.5 / kFarScale, 0, 0, -kFar* kFar},
                                    {0.5 / (kFarScale * kFar), 0.5 / (kFarScale * kFar), 0, 0, 0},
                                    {0, 0, 0, 0, 1}};

}  // namespace

KernelName Name(const WinogradKernel& row) { return NameOfIsaRow("winograd_f32", row.isa); }

const WinogradKernel* SelectWinogradRow(const CpuFacts& cpu) {
  return WidestRow(
      AllWinogradKernels(), KernelGroup::kWinograd, cpu, [](const WinogradKernel& row) { return row.tiles2.input; },
      [](const WinogradKernel& row) { return row.lanes; });
}

void TransformWinogradWeights(size_t tile, const WinogradKernels w[9], WinogradKernels* components) {
  const size_t patch = WinogradPatch(tile);
  const double(*g)[3] = tile == 2 ? kG2 : kG3;
  const auto combine = [](const double(&of)[3], const WinogradKernels* v, size_t step, WinogradKernels& to) {
    for (size_t k = 0; k < kWinogradKernels; ++k) {
      to[k] = of[0] * v[0][k] + of[1] * v[step][k] + of[2] * v[2 * step][k];
    }
  };
  for (size_t r = 0; r < patch; ++r) {
    WinogradKernels line[3];  // of G w
    for (size_t c = 0; c < 3; ++c) combine(g[r], w + c, 3, line[c]);
    for (size_t c = 0; c < patch; ++c) combine(g[c], line, 1, components[r * patch + c]);
  }
}

void RestoreWinogradWeights(size_t tile, const double* components, double w[9]) {
  const size_t patch = WinogradPatch(tile);
  const auto inverse = [&](size_t tap, size_t i) { return tile == 2 ? kInverse2[tap][i] : kInverse3[tap][i]; };
  for (size_t r = 0; r < 3; ++r) {
    double line[WinogradPatch(kMostWinogradTile)] = {};  // of w G'
    for (size_t i = 0; i < patch; ++i) {
      for (size_t c = 0; c < patch; ++c) line[c] += inverse(r, i) * components[i * patch + c];
    }
    for (size_t c = 0; c < 3; ++c) {
      w[3 * r + c] = 0;
      for (size_t i = 0; i < patch; ++i) w[3 * r + c] += inverse(c, i) * line[i];
    }
  }
}

}  // namespace quern::ukernel
