// What the claim on QLinearConv and the pass that converts it share.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace quern::cpu {

enum QLinearConvInput {
  kQLinearX,
  kQLinearXScale,
  kQLinearXZero,
  kQLinearWeight,
  kQLinearWeightScale,
  kQLinearWeightZero,
  kQLinearYScale,
  kQLinearYZero,
  kQLinearBias
};

// The largest magnitude that a sum of products and its bias may have, whatever the input holds. The weights and the
// bias must be constants.
int64_t LargestSum(const Node& node);

}  // namespace quern::cpu
