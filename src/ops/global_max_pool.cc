// GlobalMaxPool: largest element of each channel plane.
#include <cmath>

#include "ops/common/pool.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateGlobalPool(c, [](const auto* x, int64_t count) {
    double best = static_cast<double>(x[0]);
    for (int64_t i = 1; i < count; ++i) {
      const double v = static_cast<double>(x[i]);
      if (v > best || std::isnan(v)) best = v;
    }
    return best;
  });
}

constexpr Param kInputs1[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs1[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, {}, InferGlobalPool, Evaluate},
                                   {22, kInputs22, kOutputs22, {}, InferGlobalPool, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpGlobalMaxPool = {"", "GlobalMaxPool", kVersions};

}  // namespace quern
