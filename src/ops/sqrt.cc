// Sqrt: square root.
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateFloatUnary(c, [](double x) { return std::sqrt(x); });
}

constexpr Param kInputs6[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs6[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs13[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs13[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, {}, InferUnary, Evaluate},
                                   {13, kInputs13, kOutputs13, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSqrt = {"", "Sqrt", kVersions};

}  // namespace quern
