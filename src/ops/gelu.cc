// Gelu: x times the normal distribution function of x, exact or by its tanh approximation.
#include <cmath>
#include <string>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::string approximate = c.node().GetString("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    return c.Error("attribute 'approximate' is '" + approximate + "'; none or tanh is needed");
  }
  return InferUnary(c);
}

Status Evaluate(EvalContext& c) {
  if (c.node().GetString("approximate", "none") == "tanh") {
    return EvaluateFloatUnary(c, [](double x) {
      return 0.5 * x * (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));  // sqrt(2 / pi)
    });
  }
  return EvaluateFloatUnary(c, [](double x) { return 0.5 * x * (1.0 + std::erf(x * 0.7071067811865476)); });
}

constexpr Param kInputs[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs[] = {{"Y", "T", kFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"approximate", AttrType::kString, false, "none"}};
constexpr OpVersion kVersions[] = {{20, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpGelu = {"", "Gelu", kVersions};

}  // namespace quern
