// SimplifiedLayerNormalization: x over its root mean square over the dimensions from the axis on, then scale (as
// onnxruntime exports it, in domain ai.onnx).
#include "ops/common/layer_norm.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) { return EvaluateLayerNorm(c, InferLayerNormOfScaleType, false, 1); }

constexpr Param kInputs[] = {{"X", "T", kFloatTypes}, {"scale", "V", kFloatTypes}};
constexpr Param kOutputs[] = {{"Y", "V", kFloatTypes},
                              {"inv_std_var", "U", TypeSet{DType::kF32, DType::kF64}, Arity::kOptional}};
constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, false, "-1"},
                                    {"epsilon", AttrType::kFloat, false, "1e-05"},
                                    {"stash_type", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, InferLayerNormOfScaleType, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSimplifiedLayerNormalization = {"", "SimplifiedLayerNormalization", kVersions};

}  // namespace quern
