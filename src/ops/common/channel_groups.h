// GroupNorm and SkipGroupNorm of com.microsoft: normalization over groups of channels, then an activation.
#pragma once

#include "ops/op.h"

namespace quern {

// Inputs X, gamma, beta and, with `skips`, a summand and an optional bias; X is [N, H, W, C], or [N, C, H, W] when
// 'channels_last' is 0. Output 0 is of X's type, and so is the sum, output 1.
Status InferChannelGroups(InferContext& context, bool skips);
Status EvaluateChannelGroups(EvalContext& context, Status (*infer)(InferContext&), bool skips);

}  // namespace quern
