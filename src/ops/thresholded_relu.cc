// ThresholdedRelu: x above alpha, else 0.
#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const double alpha = c.node().GetFloat("alpha", 1.0f);
  return EvaluateFloatUnary(c, [=](double x) { return x > alpha ? x : 0.0; });
}

constexpr Param kInputs10[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs10[] = {{"Y", "T", kOldFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"alpha", AttrType::kFloat, false, "1"}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
// Version 1 was an experiment, which exporters wrote and onnxruntime reads.
constexpr OpVersion kVersions[] = {{1, kInputs10, kOutputs10, kAttributes, InferUnary, Evaluate},
                                   {10, kInputs10, kOutputs10, kAttributes, InferUnary, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpThresholdedRelu = {"", "ThresholdedRelu", kVersions};

}  // namespace quern
