// LayerNormalization and RMSNormalization, shared with their fused forms.
#pragma once

#include "ops/op.h"

namespace quern {

// Output 0 is of input 0's type, outputs 1 and 2 hold one statistic (f32) per row; scale and bias must fit.
Status InferLayerNorm(InferContext& context);
// The same for operators that onnxruntime had before the standard: output 0 is of the scale's type, the statistics of
// that of 'stash_type' (1: f32, 11: f64).
Status InferLayerNormOfScaleType(InferContext& context);
// Normalizes over the dimensions from 'axis' on. `subtract_mean` false: root mean square only. `inverse_output`: which
// output takes the inverse deviation (the one before it the mean), or -1.
Status EvaluateLayerNorm(EvalContext& context, Status (*infer)(InferContext&), bool subtract_mean, int inverse_output);

}  // namespace quern
