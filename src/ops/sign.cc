// Sign: -1, 0 or 1; a NaN stays a NaN.
#include "ops/common/elementwise.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateUnary(c, NumericTypeList{}, [](auto x) {
    using T = decltype(x);
    if (x > T{0}) return T{1};
    if constexpr (!std::is_unsigned_v<T>) {
      if (x < T{0}) return static_cast<T>(-1);
    }
    return x == T{0} ? T{0} : x;
  });
}

constexpr Param kInputs9[] = {{"input", "T", kOldNumericTypes}};
constexpr Param kOutputs9[] = {{"output", "T", kOldNumericTypes}};
constexpr Param kInputs13[] = {{"input", "T", kNumericTypes}};
constexpr Param kOutputs13[] = {{"output", "T", kNumericTypes}};
constexpr OpVersion kVersions[] = {{9, kInputs9, kOutputs9, {}, InferUnary, Evaluate},
                                   {13, kInputs13, kOutputs13, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSign = {"", "Sign", kVersions};

}  // namespace quern
