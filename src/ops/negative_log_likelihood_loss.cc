// NegativeLogLikelihoodLoss: minus the log-probability of each sample's class, weighted, summed or averaged.
#include "ops/common/class_loss.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, InferClassLoss));
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    const ClassLossSizes sizes(x.shape());
    return WriteClassLoss<T>(c, outputs, [&](int64_t sample, int64_t label, int64_t position) {
      return static_cast<double>(x[sizes.At(sample, label, position)]);
    });
  });
}

constexpr Param kInputs12[] = {
    {"input", "T", kOldFloatTypes}, {"target", "Tind", kLabelTypes}, {"weight", "T", kOldFloatTypes, Arity::kOptional}};
constexpr Param kOutputs12[] = {{"loss", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {
    {"input", "T", kFloatTypes}, {"target", "Tind", kLabelTypes}, {"weight", "T", kFloatTypes, Arity::kOptional}};
constexpr Param kOutputs22[] = {{"loss", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{12, kInputs12, kOutputs12, kClassLossAttributes, InferClassLoss, Evaluate},
                                   {13, kInputs12, kOutputs12, kClassLossAttributes, InferClassLoss, Evaluate},
                                   {22, kInputs22, kOutputs22, kClassLossAttributes, InferClassLoss, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpNegativeLogLikelihoodLoss = {"", "NegativeLogLikelihoodLoss", kVersions};

}  // namespace quern
