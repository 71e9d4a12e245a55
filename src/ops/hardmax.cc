// Hardmax: 1 at the first largest element along the axis, 0 elsewhere.
#include "ops/common/softmax.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateSoftmax(c, []<typename T>(const T* x, T* y, int64_t count, int64_t stride) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; ++i) {
      if (x[i * stride] > x[best * stride]) best = i;
    }
    for (int64_t i = 0; i < count; ++i) y[i * stride] = i == best ? T{1} : T{0};
  });
}

constexpr Param kInputs1[] = {{"input", "T", kOldFloatTypes}};
constexpr Param kOutputs1[] = {{"output", "T", kOldFloatTypes}};
constexpr AttrSpec kAttributes1[] = {{"axis", AttrType::kInt, false, "1"}};
constexpr Param kInputs13[] = {{"input", "T", kFloatTypes}};
constexpr Param kOutputs13[] = {{"output", "T", kFloatTypes}};
constexpr AttrSpec kAttributes13[] = {{"axis", AttrType::kInt, false, "-1"}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes1, InferSoftmax, Evaluate},
                                   {11, kInputs1, kOutputs1, kAttributes1, InferSoftmax, Evaluate},
                                   {13, kInputs13, kOutputs13, kAttributes13, InferSoftmax, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpHardmax = {"", "Hardmax", kVersions};

}  // namespace quern
