// CausalConvWithState of ai.onnx and of com.microsoft, which has dilations and may have channels last.
#pragma once

#include "ops/op.h"

namespace quern {

Status InferCausalConvWithState(InferContext& context);
Status EvaluateCausalConvWithState(EvalContext& context);

}  // namespace quern
