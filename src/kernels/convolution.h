// Convolution by the algorithm that serves it best: depthwise, over small groups, Winograd's, or the direct one.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/conv.h"
#include "kernels/dwconv.h"
#include "kernels/winograd.h"

namespace quern::kernels {

enum class ConvAlgorithm : uint8_t { kDirect, kDepthwise, kGrouped, kWinograd };

// The decisions for one set of shapes; a plain value.
struct ConvolutionPlan {
  ConvPlan direct;
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
  // What Create takes; `why_direct` as below.
  static ConvAlgorithm AlgorithmFor(const ConvProblem& problem, bool flat, const SelectOptions& options,
                                    const ConvWeights& weights, std::string* why_direct = nullptr);

  ConvAlgorithm algorithm() const { return algorithm_; }
  // Those of other algorithms are empty.
  const Conv& direct() const { return direct_; }
  const DwConv& depthwise() const { return depthwise_; }  // also of groups
  const WinogradConv& winograd() const { return winograd_; }
  // Why the direct algorithm and not Winograd's; empty for other choices.
  const std::string& why_direct() const { return why_direct_; }
  size_t packed_bytes() const;

  // As of Conv; only the direct algorithm stores channels first.
  ConvolutionPlan Plan(const ConvArgs& args, int concurrency) const;
  Status Run(const ConvolutionPlan& plan, const ConvArgs& args, const RunResources& resources) const;

 private:
  ConvAlgorithm algorithm_ = ConvAlgorithm::kDirect;
  Conv direct_;
  DwConv depthwise_;
  WinogradConv winograd_;
  std::string why_direct_;
};

}  // namespace quern::kernels
