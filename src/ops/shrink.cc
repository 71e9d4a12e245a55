// Shrink: x moved towards 0 by bias where |x| > lambd, else 0.
#include "ops/common/elementwise.h"
#include "ops/common/from_double.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const double bias = c.node().GetFloat("bias", 0.0f);
  const double lambd = c.node().GetFloat("lambd", 0.5f);
  return EvaluateUnary(c, NumericTypeList{}, [=](auto x) {
    const double v = static_cast<double>(x);
    return FromDouble<decltype(x)>(v < -lambd ? v + bias : v > lambd ? v - bias : 0.0);
  });
}

constexpr Param kInputs[] = {{"input", "T", kOldNumericTypes}};
constexpr Param kOutputs[] = {{"output", "T", kOldNumericTypes}};
constexpr AttrSpec kAttributes[] = {{"bias", AttrType::kFloat, false, "0"}, {"lambd", AttrType::kFloat, false, "0.5"}};
constexpr OpVersion kVersions[] = {{9, kInputs, kOutputs, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpShrink = {"", "Shrink", kVersions};

}  // namespace quern
