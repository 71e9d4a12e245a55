// Selu: gamma times (x, or alpha * (exp(x) - 1) below zero).
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const double alpha = c.node().GetFloat("alpha", 1.67326319217681884765625f);
  const double gamma = c.node().GetFloat("gamma", 1.05070102214813232421875f);
  return EvaluateFloatUnary(c, [=](double x) { return gamma * (x > 0 ? x : alpha * std::expm1(x)); });
}

constexpr Param kInputs6[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs6[] = {{"Y", "T", kOldFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"alpha", AttrType::kFloat, false, "1.6732632"},
                                    {"gamma", AttrType::kFloat, false, "1.050701"}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, kAttributes, InferUnary, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSelu = {"", "Selu", kVersions};

}  // namespace quern
