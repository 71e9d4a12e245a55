// GridSample: an image read at positions that a grid gives, for any number of spatial dimensions.
#pragma once

#include "ops/op.h"

namespace quern {

// Input 0 is [N, C, spatial...], input 1 the grid [N, out..., r] with positions in [-1, 1], the innermost dimension's
// first; output 0 is [N, C, out...]. Modes are understood by their names of all versions.
Status InferGridSample(InferContext& context);
Status EvaluateGridSample(EvalContext& context);

}  // namespace quern
