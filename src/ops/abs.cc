// Abs: |x|; the lowest integer stays as it is.
#include <cmath>

#include "ops/common/elementwise.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateUnary(c, NumericTypeList{}, [](auto x) {
    using T = decltype(x);
    if constexpr (std::is_floating_point_v<T>) {
      return std::fabs(x);
    } else {
      return x < T{0} ? WrappingSub<T>(0, x) : x;
    }
  });
}

constexpr Param kInputs6[] = {{"X", "T", kOldNumericTypes}};
constexpr Param kOutputs6[] = {{"Y", "T", kOldNumericTypes}};
constexpr Param kInputs13[] = {{"X", "T", kNumericTypes}};
constexpr Param kOutputs13[] = {{"Y", "T", kNumericTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, {}, InferUnary, Evaluate},
                                   {13, kInputs13, kOutputs13, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpAbs = {"", "Abs", kVersions};

}  // namespace quern
