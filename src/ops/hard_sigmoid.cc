// HardSigmoid: max(0, min(1, alpha * x + beta)).
#include <algorithm>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const double alpha = c.node().GetFloat("alpha", 0.2f);
  const double beta = c.node().GetFloat("beta", 0.5f);
  return EvaluateFloatUnary(c, [=](double x) { return std::clamp(alpha * x + beta, 0.0, 1.0); });
}

constexpr Param kInputs6[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs6[] = {{"Y", "T", kOldFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"alpha", AttrType::kFloat, false, "0.2"},
                                    {"beta", AttrType::kFloat, false, "0.5"}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, kAttributes, InferUnary, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpHardSigmoid = {"", "HardSigmoid", kVersions};

}  // namespace quern
