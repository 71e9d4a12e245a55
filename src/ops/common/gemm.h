// Gemm's inference and evaluation, shared with its fused form.
#pragma once

#include <functional>

#include "ops/op.h"

namespace quern {

// Output 0 is [M, N] of input 0's type.
Status InferGemm(InferContext& context);
// alpha * A' * B' + beta * C; each element of the result then passes through `activation` (null: none).
Status EvaluateGemm(EvalContext& context, const std::function<double(double)>& activation);

}  // namespace quern
