// Celu: x, or alpha * (exp(x / alpha) - 1) below zero.
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const double alpha = c.node().GetFloat("alpha", 1.0f);
  return EvaluateFloatUnary(c, [=](double x) { return x < 0 ? alpha * std::expm1(x / alpha) : x; });
}

constexpr Param kInputs12[] = {{"X", "T", kF32Type}};
constexpr Param kOutputs12[] = {{"Y", "T", kF32Type}};
constexpr AttrSpec kAttributes[] = {{"alpha", AttrType::kFloat, false, "1"}};
constexpr Param kInputs28[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs28[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{12, kInputs12, kOutputs12, kAttributes, InferUnary, Evaluate},
                                   {28, kInputs28, kOutputs28, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpCelu = {"", "Celu", kVersions};

}  // namespace quern
