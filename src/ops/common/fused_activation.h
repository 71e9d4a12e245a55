// The activation that com.microsoft's fused operators apply to their result.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/op.h"

namespace quern {

// The function named by attribute 'activation' (null when the node has none) with parameters `params`, in the order of
// the activation operator's attributes; those left out take its defaults. An error for a name that is not known.
Result<std::function<double(double)>> ReadFusedActivation(const Node& node, const std::vector<float>& params);

}  // namespace quern
