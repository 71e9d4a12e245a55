// What claims, passes and kernels ask of constants.
#pragma once

#include "graph/graph.h"

namespace quern::cpu {

// The value's constant tensor, or null.
const Tensor* ConstantTensor(const GraphValue* value);

// Whether such a value is one number for each column of `y`, the same in all rows: of shape [N], [1, N], [1, 1, N]...
bool IsRow(const Dims& shape, const Dims& y);
bool IsConstantRow(const GraphValue& value, const Dims& y);

}  // namespace quern::cpu
