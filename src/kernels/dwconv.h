// Depthwise convolution over NHWC: each input channel has its own `multiplier` filters, or few channels form a group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/conv.h"
#include "kernels/driver.h"
#include "ukernel/dwconv.h"

namespace quern::kernels {

struct DwConvProblem {
  size_t channels = 0;    // of the input
  size_t multiplier = 1;  // output channel c*multiplier + j comes from input channel c
  size_t group = 1;  // channels of a group, of the input and of the output; more than one only where multiplier is one
  size_t kernel_h = 1, kernel_w = 1;
  size_t stride_h = 1, stride_w = 1;
  size_t dilation_h = 1, dilation_w = 1;
  size_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  Format src = Format::kF32;      // kF32 kF16 kBf16, or kI8 kU8
  Format weights = Format::kF32;  // a float format, or kI8 kU8 for integers
};

// The problem of a convolution whose input channels are groups of their own, or whose groups have as many output as
// input channels.
DwConvProblem DepthwiseProblem(const ConvProblem& p);

using DwTable = std::span<const ukernel::KernelList<ukernel::DwConvKernel>* const>;

struct DwSelectOptions {
  CpuFacts cpu;
  DwTable rows = ukernel::AllDwConvKernels();
  std::string_view force_row;
  bool ignore_missing_bodies = false;
};

struct DwRowCandidate {
  const ukernel::DwConvKernel* row = nullptr;
  std::string name;
  std::string reason;  // empty for the chosen one
  double cycles = 0;   // per output row of 64 pixels
};

// Estimated cycles for each output pixel.
double DwPixelCycles(const ukernel::DwConvKernel& row, const CpuFacts& cpu, const DwConvProblem& problem);

// The cheapest row that the CPU runs, null with reasons in the report if none.
const ukernel::DwConvKernel* SelectDwRow(const DwConvProblem& problem, const DwSelectOptions& options,
                                         std::vector<DwRowCandidate>* report = nullptr);

class DwConv {
 public:
  DwConv() = default;

  // weights: element (o, i, h, w) with o in [0, channels * multiplier), i in [0, group). Without data, each run packs
  // its own. The zero points of integer weights are theirs, not those of a run's arguments.
  static Result<DwConv> Create(const DwConvProblem& problem, const DwSelectOptions& options,
                               const ConvWeights& weights);

  const DwConvProblem& problem() const { return problem_; }
  const ukernel::DwConvKernel* row() const { return row_; }
  size_t packed_bytes() const { return weights_.size_bytes(); }
  size_t OutHeight(size_t in_h) const;
  size_t OutWidth(size_t in_w) const;

  // As of Conv; zero points are not used.
  size_t WorkspaceBytes(const ConvArgs& args, int concurrency) const;
  Status Run(const ConvArgs& args, const RunResources& resources) const;

  // Output rows [begin, end) of one image, on the calling thread, without workspace. Of the input, only rows that these
  // read need be there; the epilogue ends in float32. Not for weights that come with the run, nor multipliers.
  void RunRows(const ConvArgs& args, size_t begin, size_t end) const;

 private:
  size_t packed_lanes() const;   // of 4 bytes each
  size_t unit_channels() const;  // of a unit of weights
  void Pack(const void* weights, int32_t zero_point, const int32_t* zero_points, void* to) const;
  // Writes the input rows that output rows [row, row + rows) read to `to`, one after the other, each channel repeated
  // for its filters. Returns where the image's first row would be.
  const char* ExpandRows(const char* input, const ConvArgs& args, size_t row, size_t rows, char* to) const;

  DwConvProblem problem_;
  CpuFacts cpu_;
  const ukernel::DwConvKernel* row_ = nullptr;
  ukernel::EpilogueRun epilogue_ = nullptr;  // of the ops that the row leaves
  ConvWeights source_;                       // where they lie, but for the data
  bool packs_in_run_ = false;
  AlignedBuffer weights_;  // as DwConvArgs wants them
};

}  // namespace quern::kernels
