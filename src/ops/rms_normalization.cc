// RMSNormalization: x over its root mean square over the dimensions from the axis on, then scale.
#include "ops/common/layer_norm.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(InferLayerNorm(c));
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(1), c.input_shape(0)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) { return EvaluateLayerNorm(c, Infer, false, -1); }

constexpr Param kInputs[] = {{"X", "T", kFloatTypes}, {"scale", "V", kFloatTypes}};
constexpr Param kOutputs[] = {{"Y", "V", kFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, false, "-1"},
                                    {"epsilon", AttrType::kFloat, false, "1e-05"},
                                    {"stash_type", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{23, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpRmsNormalization = {"", "RMSNormalization", kVersions};

}  // namespace quern
