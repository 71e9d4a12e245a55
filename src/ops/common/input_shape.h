// A check that many inference functions make of their inputs.
#pragma once

#include "ops/op.h"

namespace quern {

// An error when input i is known not to have the shape `wanted`.
Status CheckShape(const InferContext& context, int i, const Dims& wanted);

}  // namespace quern
