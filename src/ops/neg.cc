// Neg: -x; integers wrap around.
#include "ops/common/elementwise.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(InferUnary(c));
  if (std::optional<Dims> data = PropagatedInput(c, 0)) {
    for (Dim& d : *data) d = Dim(0) - d;
    c.SetOutputData(0, *std::move(data));
  }
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  return EvaluateUnary(c, Types<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t>{}, [](auto x) {
    if constexpr (std::is_integral_v<decltype(x)>) {
      return WrappingSub<decltype(x)>(0, x);
    } else {
      return -x;
    }
  });
}

constexpr Param kInputs6[] = {{"X", "T", kSignedIntTypes | kOldFloatTypes}};
constexpr Param kOutputs6[] = {{"Y", "T", kSignedIntTypes | kOldFloatTypes}};
constexpr Param kInputs13[] = {{"X", "T", kFloatTypes | kSignedIntTypes}};
constexpr Param kOutputs13[] = {{"Y", "T", kFloatTypes | kSignedIntTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, {}, Infer, Evaluate},
                                   {13, kInputs13, kOutputs13, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpNeg = {"", "Neg", kVersions};

}  // namespace quern
