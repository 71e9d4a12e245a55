// com.microsoft.FastGelu: tanh approximation of Gelu of X, plus a bias over the last dimension where given.
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/normalization.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

double FastGelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));  // sqrt(2 / pi)
}

Status Evaluate(EvalContext& c) {
  QUERN_RETURN_IF_ERROR(InferredOutputs::Make(c, InferBiased).status());
  if (!c.HasInput(1)) return EvaluateFloatUnary(c, FastGelu);
  return EvaluateBinary(c, FloatTypeList{}, [](auto a, auto b) {
    return static_cast<decltype(a)>(FastGelu(static_cast<double>(a) + static_cast<double>(b)));
  });
}

constexpr Param kInputs[] = {{"X", "T", kFloatTypes}, {"bias", "T", kFloatTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, {}, InferBiased, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftFastGelu = {"com.microsoft", "FastGelu", kVersions};

}  // namespace quern
