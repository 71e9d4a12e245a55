// IsNaN: whether each element is not a number.
#include "ops/common/any_types.h"
#include "ops/common/elementwise.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  c.SetOutputType(0, ValueType::Tensor(DType::kBool, c.input_shape(0)));
  return OkStatus();
}
Status Evaluate(EvalContext& c) {
  return EvaluateUnaryToBool(c, FloatTypeList{}, [](auto x) { return x != x; });
}

constexpr Param kInputs9[] = {{"X", "T1", kOldFloatTypes}};
constexpr Param kInputs13[] = {{"X", "T1", kFloatTypes}};
constexpr Param kInputs20[] = {{"X", "T1", kFloatTypes | kFloat8Types}};
constexpr Param kOutputs[] = {{"Y", "T2", kBoolType}};
constexpr OpVersion kVersions[] = {{9, kInputs9, kOutputs, {}, Infer, Evaluate},
                                   {13, kInputs13, kOutputs, {}, Infer, Evaluate},
                                   {20, kInputs20, kOutputs, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpIsNan = {"", "IsNaN", kVersions};

}  // namespace quern
