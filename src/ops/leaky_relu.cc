// LeakyRelu: x, or alpha * x below zero.
#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const double alpha = c.node().GetFloat("alpha", 0.01f);
  return EvaluateFloatUnary(c, [=](double x) { return x < 0 ? alpha * x : x; });
}

constexpr Param kInputs6[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs6[] = {{"Y", "T", kOldFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"alpha", AttrType::kFloat, false, "0.01"}};
constexpr Param kInputs16[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs16[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, kAttributes, InferUnary, Evaluate},
                                   {16, kInputs16, kOutputs16, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpLeakyRelu = {"", "LeakyRelu", kVersions};

}  // namespace quern
