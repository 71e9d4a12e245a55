// Mean: elementwise mean of any number of inputs, broadcast.
#include "ops/common/elementwise.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateVariadic(
      c, FloatTypeList{}, [](auto a, auto b) { return a + b; },
      [n = c.num_inputs()](auto x) { return x / static_cast<decltype(x)>(n); });
}

constexpr Param kInputs6[] = {{"data_0", "T", kOldFloatTypes, Arity::kVariadic}};
constexpr Param kOutputs6[] = {{"mean", "T", kOldFloatTypes}};
constexpr Param kInputs13[] = {{"data_0", "T", kFloatTypes, Arity::kVariadic}};
constexpr Param kOutputs13[] = {{"mean", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, {}, InferBroadcast, Evaluate},
                                   {8, kInputs6, kOutputs6, {}, InferBroadcast, Evaluate},
                                   {13, kInputs13, kOutputs13, {}, InferBroadcast, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMean = {"", "Mean", kVersions};

}  // namespace quern
