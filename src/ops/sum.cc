// Sum: elementwise sum of any number of inputs, broadcast.
#include "ops/common/elementwise.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateVariadic(c, FloatTypeList{}, [](auto a, auto b) { return a + b; }, [](auto x) { return x; });
}

constexpr Param kInputs6[] = {{"data_0", "T", kOldFloatTypes, Arity::kVariadic}};
constexpr Param kOutputs6[] = {{"sum", "T", kOldFloatTypes}};
constexpr Param kInputs13[] = {{"data_0", "T", kFloatTypes, Arity::kVariadic}};
constexpr Param kOutputs13[] = {{"sum", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, {}, InferBroadcast, Evaluate},
                                   {8, kInputs6, kOutputs6, {}, InferBroadcast, Evaluate},
                                   {13, kInputs13, kOutputs13, {}, InferBroadcast, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSum = {"", "Sum", kVersions};

}  // namespace quern
