// com.microsoft.FusedConv: Conv, plus a tensor Z where given, through an activation.
#include <functional>
#include <vector>

#include "ops/common/convolution.h"
#include "ops/common/fused_activation.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Result<std::function<double(double)>> ReadActivation(const Node& node) {
  const auto* params = node.FindAttribute<std::vector<float>>("activation_params");
  return ReadFusedActivation(
      node, [&](const char*, size_t index) { return params && index < params->size() ? &(*params)[index] : nullptr; });
}

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(ReadActivation(c.node()).status());
  return InferConv(c, {}, c.input_dtype(0));
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const auto activation, ReadActivation(c.node()));
  return EvaluateFloatConv(c, 3, activation);
}

constexpr Param kInputs[] = {{"X", "T", kFloatTypes},
                             {"W", "T", kFloatTypes},
                             {"B", "T", kFloatTypes, Arity::kOptional},
                             {"Z", "T", kFloatTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"Y", "T", kFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"activation", AttrType::kString},
                                    {"activation_params", AttrType::kFloats},
                                    {"auto_pad", AttrType::kString, false, "NOTSET"},
                                    {"dilations", AttrType::kInts},
                                    {"group", AttrType::kInt, false, "1"},
                                    {"kernel_shape", AttrType::kInts},
                                    {"pads", AttrType::kInts},
                                    {"strides", AttrType::kInts}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftFusedConv = {"com.microsoft", "FusedConv", kVersions};

}  // namespace quern
