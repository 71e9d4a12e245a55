// com.microsoft.SkipSimplifiedLayerNormalization: root-mean-square normalization of input + skip + bias over the last
// dimension.
#include "ops/common/skip_layer_norm.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

constexpr SkipNormInputs kParameters = {2, -1, 3, false};

Status Infer(InferContext& c) { return InferSkipLayerNorm(c, kParameters); }

Status Evaluate(EvalContext& c) { return EvaluateSkipLayerNorm(c, Infer, kParameters); }

constexpr Param kInputs[] = {{"input", "T", kFloatTypes},
                             {"skip", "T", kFloatTypes},
                             {"gamma", "T", kFloatTypes},
                             {"bias", "T", kFloatTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T", kFloatTypes},
                              {"mean", "U", kF32Type, Arity::kOptional},
                              {"inv_std_var", "U", kF32Type, Arity::kOptional},
                              {"input_skip_bias_sum", "T", kFloatTypes, Arity::kOptional}};
constexpr AttrSpec kAttributes[] = {{"epsilon", AttrType::kFloat, false, "1e-12"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftSkipSimplifiedLayerNormalization = {
    "com.microsoft", "SkipSimplifiedLayerNormalization", kVersions};

}  // namespace quern
