// IsNaN: whether each element is not a number.
#include "ops/common/any_types.h"
#include "ops/common/float_predicate.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateFloatPredicate(c, [](auto x) { return x != x; });
}

constexpr Param kInputs9[] = {{"X", "T1", kOldFloatTypes}};
constexpr Param kInputs13[] = {{"X", "T1", kFloatTypes}};
constexpr Param kInputs20[] = {{"X", "T1", kFloatTypes | kFloat8Types}};
constexpr Param kOutputs[] = {{"Y", "T2", kBoolType}};
constexpr OpVersion kVersions[] = {{9, kInputs9, kOutputs, {}, InferFloatPredicate, Evaluate},
                                   {13, kInputs13, kOutputs, {}, InferFloatPredicate, Evaluate},
                                   {20, kInputs20, kOutputs, {}, InferFloatPredicate, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpIsNan = {"", "IsNaN", kVersions};

}  // namespace quern
