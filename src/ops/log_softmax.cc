// LogSoftmax: x minus the logarithm of the sum of exp(x) along the axis.
#include <cmath>

#include "ops/common/softmax.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateSoftmax(c, []<typename T>(const T* x, T* y, int64_t count, int64_t stride) {
    const double largest = LargestOf(x, count, stride);
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += std::exp(static_cast<double>(x[i * stride]) - largest);
    const double shift = largest + std::log(sum);
    for (int64_t i = 0; i < count; ++i) y[i * stride] = static_cast<T>(static_cast<double>(x[i * stride]) - shift);
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

extern constinit const OpDefinition kOpLogSoftmax = {"", "LogSoftmax", kVersions};

}  // namespace quern
