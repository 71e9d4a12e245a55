// GlobalLpPool: p-norm of each channel plane.
#include <cmath>

#include "ops/common/pool.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const int64_t p = c.node().GetInt("p", 2);
  if (p < 1) return c.Error("attribute 'p' is " + std::to_string(p) + "; at least 1 is needed");
  return EvaluateGlobalPool(c, [power = static_cast<double>(p)](const auto* x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += std::pow(std::fabs(static_cast<double>(x[i])), power);
    return std::pow(sum, 1.0 / power);
  });
}

constexpr Param kInputs2[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs2[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"p", AttrType::kInt, false, "2"}};
constexpr OpVersion kVersions[] = {{2, kInputs2, kOutputs2, kAttributes, InferGlobalPool, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes, InferGlobalPool, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpGlobalLpPool = {"", "GlobalLpPool", kVersions};

}  // namespace quern
