#include "kernels/conv_cost.h"

#include <algorithm>
#include <cmath>

namespace quern::kernels {
namespace {

// Pixels of an output of unknown size.
constexpr size_t kUsualPixels = 28 * 28;
// Of the shorter of two times, products and weights from memory, what does not pass during the other.
constexpr double kNotHidden = 0.25;

// The share of the taps that the direct algorithm multiplies by: of a dilated kernel it passes over those that lie
// outside of the image.
double TapsWithin(const ConvProblem& p) {
  const double side = std::ceil(std::sqrt(static_cast<double>(ExpectedPixels(p))));
  const auto share = [&](size_t kernel, size_t dilation) {
    if (dilation == 1 || kernel != 3) return 1.0;
    return (1 + 2 * std::max(0.0, 1 - static_cast<double>(dilation) / side)) / 3;
  };
  return share(p.kernel_h, p.dilation_h) * share(p.kernel_w, p.dilation_w);
}

}  // namespace

size_t ExpectedPixels(const ConvProblem& p) { return p.expected_pixels ? p.expected_pixels : kUsualPixels; }

GemmProblem ProductOf(const ConvProblem& p, size_t m, size_t k) {
  GemmProblem g;
  g.lhs = p.lhs;
  g.rhs = p.rhs;
  g.n = p.out_channels;
  g.k = k;
  g.precision = Precision::kFp32;  // rows on split terms would need what they fall back to
  g.expected_m = m;
  g.lhs_form = ukernel::kLhsRows;
  return g;
}

double ProductCycles(const GemmProblem& g, const SelectOptions& options) {
  const Result<LayoutChoice> layout = SelectLayout(g, options);
  if (!layout.ok()) return 0;
  const std::vector<const GemmKernel*> rows = EligibleRows(g, options, *layout);
  const GemmKernel* row = SelectRow(rows, g, options.cpu, layout->layout, g.expected_m);
  return row ? EstimateCycles(*row, g, options.cpu, layout->layout, g.expected_m) : 0;
}

double WithWeights(double cycles, size_t weights, const ConvProblem& p, const SelectOptions& options) {
  // Bytes per cycle at most while products are computed, where reading alone gives 8.
  constexpr float kWhileComputing = 5;
  const double stream = static_cast<double>(weights * p.in_channels * p.out_channels * sizeof(float)) /
                        static_cast<double>(std::min(options.cpu.memory_read, kWhileComputing));
  return std::max(cycles, stream) + kNotHidden * std::min(cycles, stream);
}

double DirectCycles(const ConvProblem& p, const SelectOptions& options) {
  const size_t taps = p.kernel_h * p.kernel_w;
  GemmProblem g = ProductOf(p, ExpectedPixels(p), p.in_channels);
  g.segments = taps;
  g.precision = p.precision;
  g.lhs_form = ukernel::kLhsRowPointers;
  const double products = ProductCycles(g, options);
  return products == 0 ? 0 : WithWeights(products * TapsWithin(p), taps, p, options);
}

}  // namespace quern::kernels
