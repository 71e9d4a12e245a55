// Softplus: log(1 + exp(x)), without overflow.
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateFloatUnary(c, [](double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); });
}

constexpr Param kInputs1[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs1[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, {}, InferUnary, Evaluate},
                                   {22, kInputs22, kOutputs22, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSoftplus = {"", "Softplus", kVersions};

}  // namespace quern
