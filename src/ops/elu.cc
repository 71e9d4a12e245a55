// Elu: x, or alpha * (exp(x) - 1) below zero.
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const double alpha = c.node().GetFloat("alpha", 1.0f);
  return EvaluateFloatUnary(c, [=](double x) { return x < 0 ? alpha * std::expm1(x) : x; });
}

constexpr Param kInputs6[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs6[] = {{"Y", "T", kOldFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"alpha", AttrType::kFloat, false, "1"}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, kAttributes, InferUnary, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpElu = {"", "Elu", kVersions};

}  // namespace quern
