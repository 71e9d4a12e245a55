// What claims, passes and kernels ask of constants.
#pragma once

#include "graph/graph.h"

namespace quern::cpu {

// The value's constant tensor, or null.
const Tensor* ConstantTensor(const GraphValue* value);

}  // namespace quern::cpu
