// CumSum: running sums along an axis.
#include "ops/common/cumulative.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateCumulative(c, 0, [](auto a, auto b) { return WrappingAdd(a, b); });
}

constexpr TypeSet kTypes11 = {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU32, DType::kU64};
constexpr Param kInputs11[] = {{"x", "T", kTypes11}, {"axis", "T2", kIndexTypes}},
                kOutputs11[] = {{"y", "T", kTypes11}};
constexpr OpVersion kVersions[] = {
    {11, kInputs11, kOutputs11, kCumulativeAttributes, InferUnary, Evaluate},
    {14, kCumulativeInputs, kCumulativeOutputs, kCumulativeAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpCumSum = {"", "CumSum", kVersions};

}  // namespace quern
