// SkipLayerNormalization and its simplified form: a residual sum, then normalization over the last dimension.
#pragma once

#include "ops/op.h"

namespace quern {

// Which inputs hold the parameters (-1: none); input 0 and 1 are the summands.
struct SkipNormInputs {
  int gamma, beta, bias;
  bool subtract_mean;
};
Status InferSkipLayerNorm(InferContext& context, SkipNormInputs inputs);
Status EvaluateSkipLayerNorm(EvalContext& context, Status (*infer)(InferContext&), SkipNormInputs inputs);

}  // namespace quern
