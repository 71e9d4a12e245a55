// com.microsoft.BiasGelu: Gelu(A + B), B a vector over the last dimension.
#include <cmath>

#include "ops/common/elementwise.h"
#include "ops/common/normalization.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  QUERN_RETURN_IF_ERROR(InferredOutputs::Make(c, InferBiased).status());
  return EvaluateBinary(c, FloatTypeList{}, [](auto a, auto b) {
    const double x = static_cast<double>(a) + static_cast<double>(b);
    return static_cast<decltype(a)>(0.5 * x * (1.0 + std::erf(x * 0.7071067811865476)));
  });
}

constexpr Param kInputs[] = {{"A", "T", kFloatTypes}, {"B", "T", kFloatTypes}};
constexpr Param kOutputs[] = {{"C", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, {}, InferBiased, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftBiasGelu = {"com.microsoft", "BiasGelu", kVersions};

}  // namespace quern
