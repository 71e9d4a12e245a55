// Softsign: x / (1 + |x|).
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateFloatUnary(c, [](double x) { return x / (1.0 + std::fabs(x)); });
}

constexpr Param kInputs1[] = {{"input", "T", kOldFloatTypes}};
constexpr Param kOutputs1[] = {{"output", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {{"input", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"output", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, {}, InferUnary, Evaluate},
                                   {22, kInputs22, kOutputs22, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSoftsign = {"", "Softsign", kVersions};

}  // namespace quern
