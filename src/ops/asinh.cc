// Asinh: inverse hyperbolic sine.
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateFloatUnary(c, [](double x) { return std::asinh(x); });
}

constexpr Param kInputs9[] = {{"input", "T", kOldFloatTypes}};
constexpr Param kOutputs9[] = {{"output", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {{"input", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"output", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{9, kInputs9, kOutputs9, {}, InferUnary, Evaluate},
                                   {22, kInputs22, kOutputs22, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpAsinh = {"", "Asinh", kVersions};

}  // namespace quern
