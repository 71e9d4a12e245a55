// Erf: Gauss error function.
#include <cmath>

#include "ops/common/elementwise.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateUnary(c, NumericTypeList{},
                       [](auto x) { return static_cast<decltype(x)>(std::erf(static_cast<double>(x))); });
}

constexpr Param kInputs9[] = {{"input", "T", kOldNumericTypes}};
constexpr Param kOutputs9[] = {{"output", "T", kOldNumericTypes}};
constexpr Param kInputs13[] = {{"input", "T", kFloatTypes}};
constexpr Param kOutputs13[] = {{"output", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{9, kInputs9, kOutputs9, {}, InferUnary, Evaluate},
                                   {13, kInputs13, kOutputs13, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpErf = {"", "Erf", kVersions};

}  // namespace quern
