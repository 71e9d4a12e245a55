// Convolution by the algorithm that serves it best: depthwise, over small groups, kn2row, Winograd's, or the direct
// one.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/conv.h"
#include "kernels/dwconv.h"
#include "kernels/kn2row.h"
#include "kernels/winograd.h"

namespace quern::kernels {

enum class ConvAlgorithm : uint8_t { kDirect, kDepthwise, kGrouped, kKn2Row, kWinograd };

// The decisions for one set of shapes; a plain value.
struct ConvolutionPlan {
  ConvPlan direct;
  Kn2RowPlan kn2row;
  WinogradPlan winograd;
  size_t workspace_bytes = 0;
};

class Convolution {
 public:
  Convolution() = default;

  // As of Conv. `flat`: images have one slice.
  static Result<Convolution> Create(const ConvProblem& problem, bool flat, const SelectOptions& options,
                                    const ConvWeights& weights, const Packing& packing);
  // Floats or integers of which each input channel is a group of its own.
  static bool IsDepthwise(const ConvProblem& problem);
  // Groups of so few channels, as many in as out, that a row for such groups serves them better than products would.
  static bool IsGrouped(const ConvProblem& problem, const SelectOptions& options);
  // Why the direct algorithm and not another; empty for those that were chosen, or not looked at.
  struct Rejections {
    std::string kn2row, winograd;
  };
  // What Create takes.
  static ConvAlgorithm AlgorithmFor(const ConvProblem& problem, bool flat, const SelectOptions& options,
                                    const ConvWeights& weights, Rejections* rejections = nullptr);

  ConvAlgorithm algorithm() const { return algorithm_; }
  // Those of other algorithms are empty.
  const Conv& direct() const { return direct_; }
  const DwConv& depthwise() const { return depthwise_; }  // also of groups
  const Kn2RowConv& kn2row() const { return kn2row_; }
  const WinogradConv& winograd() const { return winograd_; }
  const Rejections& rejections() const { return rejections_; }
  size_t packed_bytes() const;

  // As of Conv; only the direct algorithm stores channels first.
  ConvolutionPlan Plan(const ConvArgs& args, int concurrency) const;
  Status Run(const ConvolutionPlan& plan, const ConvArgs& args, const RunResources& resources) const;

 private:
  ConvAlgorithm algorithm_ = ConvAlgorithm::kDirect;
  Conv direct_;
  DwConv depthwise_;
  Kn2RowConv kn2row_;
  WinogradConv winograd_;
  Rejections rejections_;
};

}  // namespace quern::kernels
