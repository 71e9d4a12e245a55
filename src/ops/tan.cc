// Tan: tangent.
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateFloatUnary(c, [](double x) { return std::tan(x); });
}

constexpr Param kInputs7[] = {{"input", "T", kOldFloatTypes}};
constexpr Param kOutputs7[] = {{"output", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {{"input", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"output", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{7, kInputs7, kOutputs7, {}, InferUnary, Evaluate},
                                   {22, kInputs22, kOutputs22, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpTan = {"", "Tan", kVersions};

}  // namespace quern
