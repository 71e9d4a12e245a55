// Min: elementwise minimum of any number of inputs, broadcast; a NaN wins.
#include "ops/common/elementwise.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(InferBroadcast(c));
  PropagateElementwise(c, [](const Dim& a, const Dim& b) { return Dim::Min(a, b); });
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  return EvaluateVariadic(
      c, NumericTypeList{}, [](auto a, auto b) { return a != a || a < b ? a : b; }, [](auto x) { return x; });
}

constexpr Param kInputs6[] = {{"data_0", "T", kOldFloatTypes, Arity::kVariadic}};
constexpr Param kOutputs6[] = {{"min", "T", kOldFloatTypes}};
constexpr Param kInputs12[] = {{"data_0", "T", kOldNumericTypes, Arity::kVariadic}};
constexpr Param kOutputs12[] = {{"min", "T", kOldNumericTypes}};
constexpr Param kInputs13[] = {{"data_0", "T", kNumericTypes, Arity::kVariadic}};
constexpr Param kOutputs13[] = {{"min", "T", kNumericTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, {}, Infer, Evaluate},
                                   {8, kInputs6, kOutputs6, {}, Infer, Evaluate},
                                   {12, kInputs12, kOutputs12, {}, Infer, Evaluate},
                                   {13, kInputs13, kOutputs13, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMin = {"", "Min", kVersions};

}  // namespace quern
