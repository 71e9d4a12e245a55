// Trilu: the upper or lower triangle of the last two dimensions, zero elsewhere; k (input 1) moves the diagonal up.
#pragma once

#include "ops/op.h"

namespace quern {

Status InferTrilu(InferContext& context);
Status EvaluateTrilu(EvalContext& context);

}  // namespace quern
