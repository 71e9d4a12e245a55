// Relu: max(0, x); a NaN stays a NaN.
#include "ops/common/elementwise.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateUnary(c, Types<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t>{},
                       [](auto x) { return x < 0 ? decltype(x){0} : x; });
}

constexpr TypeSet kTypes6 = {DType::kF32, DType::kF64, DType::kF16};
constexpr TypeSet kTypes14 = kFloatTypes | kSignedIntTypes;
constexpr Param kInputs6[] = {{"X", "T", kTypes6}}, kOutputs6[] = {{"Y", "T", kTypes6}};
constexpr Param kInputs13[] = {{"X", "T", kFloatTypes}}, kOutputs13[] = {{"Y", "T", kFloatTypes}};
constexpr Param kInputs14[] = {{"X", "T", kTypes14}}, kOutputs14[] = {{"Y", "T", kTypes14}};
constexpr OpVersion kVersions[] = {
    {6, kInputs6, kOutputs6, {}, InferUnary, Evaluate},
    {13, kInputs13, kOutputs13, {}, InferUnary, Evaluate},
    {14, kInputs14, kOutputs14, {}, InferUnary, Evaluate},
};

}  // namespace

extern constinit const OpDefinition kOpRelu = {"", "Relu", kVersions};

}  // namespace quern
