// What a BatchNormalization in inference comes to.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace quern {

// y = x * factor + offset, per channel
struct ChannelAffine {
  std::vector<double> factor, offset;
};

// Of a BatchNormalization, computed in double: factor = scale / sqrt(var + epsilon), offset = bias - mean * factor.
// Nothing in training, where parameters are no constants or of several lengths, or results no finite numbers.
std::optional<ChannelAffine> ChannelAffineOf(const Node& norm);

// The elements of a constant float32 or float64 tensor; nothing for other values.
std::optional<std::vector<double>> DoublesOf(const GraphValue* v);

}  // namespace quern
