// CumProd: running products along an axis.
#include "ops/common/cumulative.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateCumulative(c, 1, [](auto a, auto b) { return WrappingMul(a, b); });
}

constexpr OpVersion kVersions[] = {
    {26, kCumulativeInputs, kCumulativeOutputs, kCumulativeAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpCumProd = {"", "CumProd", kVersions};

}  // namespace quern
