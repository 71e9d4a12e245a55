// Round: nearest integer, halves to even.
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateFloatUnary(c, [](double x) { return std::nearbyint(x); });
}

constexpr Param kInputs11[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs11[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{11, kInputs11, kOutputs11, {}, InferUnary, Evaluate},
                                   {22, kInputs22, kOutputs22, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpRound = {"", "Round", kVersions};

}  // namespace quern
