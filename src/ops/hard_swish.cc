// HardSwish: x * max(0, min(1, x / 6 + 0.5)).
#include <algorithm>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateFloatUnary(c, [](double x) { return x * std::clamp(x / 6.0 + 0.5, 0.0, 1.0); });
}

constexpr Param kInputs14[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs14[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{14, kInputs14, kOutputs14, {}, InferUnary, Evaluate},
                                   {22, kInputs22, kOutputs22, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpHardSwish = {"", "HardSwish", kVersions};

}  // namespace quern
