// com.microsoft.Gelu: x times the normal distribution function of x.
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateFloatUnary(c, [](double x) { return 0.5 * x * (1.0 + std::erf(x * 0.7071067811865476)); });
}

constexpr Param kInputs[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftGelu = {"com.microsoft", "Gelu", kVersions};

}  // namespace quern
