// com.microsoft.MoE: each token through its best experts, two products with an activation between them.
#include "ops/common/mixture_of_experts.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferExperts(c, kMoeInputs, {1, 1, 1}); }

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const ExpertForm form, ExpertForm::Read(c.node(), c.HasInput(kMoeInputs.w3)));
  const ExpertSizes sizes = ExpertSizes::Of(c.input(kMoeInputs.x).shape(), c.input(kMoeInputs.w1).shape(), form);
  FloatInput<float> weights[3];
  const int inputs[3] = {kMoeInputs.w1, kMoeInputs.w2, kMoeInputs.w3};
  for (int i = 0; i < 3; ++i) {
    QUERN_ASSIGN_OR_RETURN(weights[i], ReadFloats<float>(c, inputs[i]));
  }
  const auto multiply = [&](int i, int64_t expert, const double* x, double* y) {
    const int64_t n = weights[i].shape()[1], k = weights[i].shape()[2];
    const float* w = weights[i].data() + expert * n * k;
    for (int64_t r = 0; r < n; ++r, w += k) {
      for (int64_t j = 0; j < k; ++j) y[r] += static_cast<double>(w[j]) * x[j];
    }
  };
  return EvaluateExperts(c, kMoeInputs, form, sizes, RouteWeights::kSoftmaxOfAll, outputs, multiply);
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs[] = {{"input", "T", kTypes},
                             {"router_probs", "T", kTypes},
                             {"fc1_experts_weights", "T", kTypes},
                             {"fc1_experts_bias", "T", kTypes, Arity::kOptional},
                             {"fc2_experts_weights", "T", kTypes},
                             {"fc2_experts_bias", "T", kTypes, Arity::kOptional},
                             {"fc3_experts_weights", "T", kTypes, Arity::kOptional},
                             {"fc3_experts_bias", "T", kTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T", kTypes}};
constexpr AttrSpec kAttributes[] = {{"activation_alpha", AttrType::kFloat, false, "1"},
                                    {"activation_beta", AttrType::kFloat, false, "0"},
                                    {"activation_type", AttrType::kString, false, "relu"},
                                    {"k", AttrType::kInt, false, "1"},
                                    {"normalize_routing_weights", AttrType::kInt, false, "0"},
                                    {"swiglu_fusion", AttrType::kInt, false, "0"},
                                    {"swiglu_limit", AttrType::kFloat},
                                    {"use_sparse_mixer", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftMoE = {"com.microsoft", "MoE", kVersions};

}  // namespace quern
