// This provider's ConvChain: a depthwise Conv with a 1x1 Conv before it, after it, or both, as one node. Its inputs are
// listed here; the attributes of each Conv are the node's, with the Conv's name before theirs ("depthwise_strides").
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace quern::cpu {

enum ChainInput : int {
  kChainX,
  kChainBeforeWeights,  // omitted: no convolution before
  kChainBeforeBias,
  kChainDepthwiseWeights,
  kChainDepthwiseBias,
  kChainAfterWeights,  // omitted: no convolution after
  kChainAfterBias,
  kChainResidual,  // of the last convolution
  kChainInputs
};

// The convolutions of a chain as nodes of a graph of their own, typed.
struct ConvStages {
  std::unique_ptr<Graph> graph;
  const Node *before = nullptr, *depthwise = nullptr, *after = nullptr;  // before and after may be missing
  const Node& last() const { return after ? *after : *depthwise; }
};

// x: the type of the chain's input. An error where the shapes do not go together.
Result<ConvStages> StagesOf(const Node& chain, const ValueType& x);

// Puts a Conv's inputs and attributes into those of a chain: weights at `inputs[weights]`, then the bias. Its residual
// goes to kChainResidual.
void AddStage(const Node& conv, ChainInput weights, std::vector<GraphValue*>& inputs,
              std::map<std::string, Attribute, std::less<>>& attributes);

}  // namespace quern::cpu
