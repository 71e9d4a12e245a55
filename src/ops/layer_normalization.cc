// LayerNormalization: normalization over the dimensions from the axis on, then scale and bias.
#include "ops/common/layer_norm.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) { return EvaluateLayerNorm(c, InferLayerNorm, true, 2); }

constexpr Param kInputs[] = {
    {"X", "T", kFloatTypes}, {"Scale", "T", kFloatTypes}, {"B", "T", kFloatTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"Y", "T", kFloatTypes},
                              {"Mean", "U", TypeSet{DType::kF32, DType::kBF16}, Arity::kOptional},
                              {"InvStdDev", "U", TypeSet{DType::kF32, DType::kBF16}, Arity::kOptional}};
constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, false, "-1"},
                                    {"epsilon", AttrType::kFloat, false, "1e-05"},
                                    {"stash_type", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{17, kInputs, kOutputs, kAttributes, InferLayerNorm, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpLayerNormalization = {"", "LayerNormalization", kVersions};

}  // namespace quern
