// Convolution to few output channels by kn2row (Vasudevan, Anderson and Gregg, "Parallel Multi Channel Convolution
// using General Matrix Multiplication", 2017), NHWC or slices of NDHWC, float32, stride 1: one product of the input's
// pixels by the weights of all taps side by side, [input channels][taps * output channels], and each output is the sum
// of its taps' products, which lie at their pixels. The direct algorithm's columns are the output channels, of which
// vectors need more than few. Sums are over the input channels of each tap, then over the taps row by row. Padding adds
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/conv.h"
#include "kernels/driver.h"
#include "kernels/gemm_core.h"
#include "kernels/packed_rhs.h"

namespace quern::kernels {

// The decisions for one set of shapes; a plain value. Products of some lines of the input at a time go to a ring, from
// which lines of the output are summed: each slot has its own.
struct Kn2RowPlan {
  size_t slices = 1;  // of a volume, each convolved by itself
  size_t out_h = 0, out_w = 0;
  size_t chunk_lines = 1,
         chunks = 0;         // input lines of a product; products of an image, of which the last may have less
  size_t ring_chunks = 0;    // products that are kept
  size_t pixel_floats = 0;   // from pixel to pixel of them
  size_t task_lines = 1;     // output lines that a slot computes at least
  GemmPlan gemm, last_gemm;  // of a chunk, and of the last one
  int slots = 1;
  ukernel::EpilogueRun epilogue = nullptr;
  size_t chunk_bytes = 0, core_offset = 0, area_stride = 0;  // workspace: an area for each slot, its ring first
  size_t workspace_bytes = 0;
};

class Kn2RowConv {
 public:
  Kn2RowConv() = default;

  // Why the algorithm cannot serve the problem, or is not expected to be faster than the direct one ("cost 1.3x of
  // best, the direct algorithm"); empty when it is to be used.
  static std::string RejectionReason(const ConvProblem& problem, const SelectOptions& options,
                                     const ConvWeights& weights);

  // What it is expected to take, of a problem that it can serve; 0 without a row for its product.
  static double Cycles(const ConvProblem& problem, const SelectOptions& options);

  // Packs the weights, which are not needed afterwards. kInvalidArgument for problems that it cannot serve.
  static Result<Kn2RowConv> Create(const ConvProblem& problem, const SelectOptions& options, const ConvWeights& weights,
                                   const Packing& packing);

  const ConvProblem& problem() const { return problem_; }
  const GemmProblem& gemm_problem() const { return gemm_; }
  const PackedRhs& weights() const { return weights_; }
  const GemmKernel* GemmRowFor(size_t pixels) const;
  // "one product for 9 taps of 3 channels"
  std::string Saving() const;

  // As of Conv.
  Kn2RowPlan Plan(const ConvArgs& args, int concurrency) const;
  Status Run(const Kn2RowPlan& plan, const ConvArgs& args, const RunResources& resources) const;

 private:
  ConvProblem problem_;
  GemmProblem gemm_;
  CpuFacts cpu_;
  PackedRhs weights_;  // column tap * out_channels + o
  std::vector<const GemmKernel*> eligible_;
};

}  // namespace quern::kernels
