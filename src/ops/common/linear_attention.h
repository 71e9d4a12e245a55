// LinearAttention of ai.onnx and of com.microsoft. The latter's heads of keys may be shared by heads of values, which
// may in turn outnumber those of queries, and inputs that an update rule has no use for are passed over.
#pragma once

#include "ops/op.h"

namespace quern {

Status InferLinearAttention(InferContext& context);
Status EvaluateLinearAttention(EvalContext& context);

// What an update rule has besides state += key * value^T.
struct LinearAttentionRule {
  bool decays, corrects;  // by exp(decay); by beta * (value - what the key finds)
};
// An error for an unknown rule, one without its inputs, or (of ai.onnx) one with inputs of others.
Result<LinearAttentionRule> ReadLinearAttentionRule(const Node& node);

}  // namespace quern
