// SoftmaxCrossEntropyLoss: minus the log of the softmax over the classes, taken at each sample's class.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/common/class_loss.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, InferClassLoss));
  return WithComputeType(c, c.input(0).dtype(), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    const ClassLossSizes sizes(x.shape());
    // Of each [batch, position]: log of the sum over the classes of exp(score).
    std::vector<double> log_sums(static_cast<size_t>(sizes.classes > 0 ? sizes.batch * sizes.positions : 0));
    for (size_t i = 0; i < log_sums.size(); ++i) {
      const int64_t n = static_cast<int64_t>(i) / sizes.positions, p = static_cast<int64_t>(i) % sizes.positions;
      double largest = static_cast<double>(x[sizes.At(n, 0, p)]), sum = 0;
      for (int64_t k = 1; k < sizes.classes; ++k) {
        largest = std::max(largest, static_cast<double>(x[sizes.At(n, k, p)]));
      }
      for (int64_t k = 0; k < sizes.classes; ++k) {
        sum += std::exp(static_cast<double>(x[sizes.At(n, k, p)]) - largest);
      }
      log_sums[i] = largest + std::log(sum);
    }
    const auto log_probability = [&](int64_t n, int64_t label, int64_t p) {
      return static_cast<double>(x[sizes.At(n, label, p)]) - log_sums[n * sizes.positions + p];
    };
    if (c.HasOutput(1)) {
      QUERN_ASSIGN_OR_RETURN(FloatOutput<T> out, WriteFloats<T>(c, outputs, 1));
      for (int64_t i = 0; i < out.num_elements(); ++i) {
        const int64_t n = i / (sizes.classes * sizes.positions), k = i / sizes.positions % sizes.classes;
        out[i] = static_cast<T>(log_probability(n, k, i % sizes.positions));
      }
      out.Finish();
    }
    return WriteClassLoss<T>(c, outputs, log_probability);
  });
}

constexpr Param kInputs12[] = {{"scores", "T", kOldFloatTypes},
                               {"labels", "Tind", kLabelTypes},
                               {"weights", "T", kOldFloatTypes, Arity::kOptional}};
constexpr Param kOutputs12[] = {{"output", "T", kOldFloatTypes}, {"log_prob", "T", kOldFloatTypes, Arity::kOptional}};
constexpr Param kInputs13[] = {
    {"scores", "T", kFloatTypes}, {"labels", "Tind", kLabelTypes}, {"weights", "T", kFloatTypes, Arity::kOptional}};
constexpr Param kOutputs13[] = {{"output", "T", kFloatTypes}, {"log_prob", "T", kFloatTypes, Arity::kOptional}};
constexpr OpVersion kVersions[] = {{12, kInputs12, kOutputs12, kClassLossAttributes, InferClassLoss, Evaluate},
                                   {13, kInputs13, kOutputs13, kClassLossAttributes, InferClassLoss, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSoftmaxCrossEntropyLoss = {"", "SoftmaxCrossEntropyLoss", kVersions};

}  // namespace quern
