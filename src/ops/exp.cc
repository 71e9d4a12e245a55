// Exp: e to the power of x.
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateFloatUnary(c, [](double x) { return std::exp(x); });
}

constexpr Param kInputs6[] = {{"input", "T", kOldFloatTypes}};
constexpr Param kOutputs6[] = {{"output", "T", kOldFloatTypes}};
constexpr Param kInputs13[] = {{"input", "T", kFloatTypes}};
constexpr Param kOutputs13[] = {{"output", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, {}, InferUnary, Evaluate},
                                   {13, kInputs13, kOutputs13, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpExp = {"", "Exp", kVersions};

}  // namespace quern
