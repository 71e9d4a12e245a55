// Mish: x * tanh(log(1 + exp(x))).
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateFloatUnary(
      c, [](double x) { return x * std::tanh(std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x)))); });
}

constexpr Param kInputs18[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs18[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{18, kInputs18, kOutputs18, {}, InferUnary, Evaluate},
                                   {22, kInputs22, kOutputs22, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMish = {"", "Mish", kVersions};

}  // namespace quern
