// com.microsoft.QuickGelu: x / (1 + exp(-alpha * x)).
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const double alpha = c.node().GetFloat("alpha", 1.702f);
  return EvaluateFloatUnary(c, [=](double x) { return x / (1.0 + std::exp(-alpha * x)); });
}

constexpr Param kInputs[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs[] = {{"Y", "T", kFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"alpha", AttrType::kFloat, false, "1.702"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftQuickGelu = {"com.microsoft", "QuickGelu", kVersions};

}  // namespace quern
