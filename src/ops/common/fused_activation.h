// The activation that com.microsoft's fused operators apply to their result.
#pragma once

#include <functional>

#include "ops/op.h"

namespace quern {

// A parameter that the node gives to its activation: the operator's attribute `name` ("alpha"), the `index`-th of those
// that it has; null where the node leaves it out.
using FusedActivationParam = std::function<const float*(const char* name, size_t index)>;

// The function named by attribute 'activation' (null when the node has none); parameters left out take the activation
// operator's defaults. An error for a name that is not known.
Result<std::function<double(double)>> ReadFusedActivation(const Node& node, const FusedActivationParam& given);

}  // namespace quern
