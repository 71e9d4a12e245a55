// What the claims on QLinearConv and ConvInteger and the pass that converts them share.
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

enum ConvIntegerInput { kIntegerX, kIntegerWeight, kIntegerXZero, kIntegerWeightZero };

// The largest magnitude that a sum of products and its bias (null: none) may have, whatever the operands hold. The
// weights have a known shape.
int64_t LargestSum(const GraphValue& weights, const Tensor* bias);

}  // namespace quern::cpu
