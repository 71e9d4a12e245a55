// com.microsoft.QMoE: each token through its best experts, whose weights are integers of 2, 4 or 8 bits with scales for
// each row or block: w = (q - zero point) * scale.
#include "ops/common/expert_weights.h"
#include "ops/common/head_attention.h"
#include "ops/common/mixture_of_experts.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  int64_t packed[3];
  for (int i = 0; i < 3; ++i) {
    QUERN_ASSIGN_OR_RETURN(const ExpertWeights w, ExpertWeights::Read(c.node(), i));
    packed[i] = w.per_byte();
    if (c.HasInput(w.weights) && !c.HasInput(w.scales)) return c.Error("integer weights need their scales");
    const std::optional<Dims> shape = c.input_shape(w.weights);
    if (!shape || shape->size() != 3) continue;
    const Dim &experts = (*shape)[0], &rows = (*shape)[1], k = (*shape)[2] * packed[i];
    if (w.block > 0 && k.is_constant() && k.value() % w.block != 0) {
      return c.Error("'block_size' = " + std::to_string(w.block) + " does not divide rows of " + k.ToString());
    }
    const auto bytes = [&](const Dim& count) { return Dim::FloorDiv(count + (packed[i] - 1), packed[i]); };
    const Dim blocks = w.block > 0 ? Dim::FloorDiv(k, w.block) : Dim(1);
    QUERN_RETURN_IF_ERROR(
        CheckInputShape(c, w.scales, w.block > 0 ? Dims{experts, rows, blocks} : Dims{experts, rows}));
    QUERN_RETURN_IF_ERROR(CheckInputShape(
        c, w.zero_points, w.block > 0 ? Dims{experts, rows, bytes(blocks)} : Dims{experts, bytes(rows)}));
  }
  return InferExperts(c, kQMoeInputs, packed);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const ExpertForm form, ExpertForm::Read(c.node(), c.HasInput(kQMoeInputs.w3)));
  const ExpertSizes sizes = ExpertSizes::Of(c.input(kQMoeInputs.x).shape(), c.input(kQMoeInputs.w1).shape(), form);
  ExpertWeights weights[3];
  FloatInput<float> scales[3];
  for (int i = 0; i < 3; ++i) {
    QUERN_ASSIGN_OR_RETURN(weights[i], ExpertWeights::Read(c.node(), i));
    QUERN_ASSIGN_OR_RETURN(scales[i], ReadFloats<float>(c, weights[i].scales));
  }
  const auto multiply = [&](int i, int64_t expert, const double* x, double* y) {
    const ExpertWeights& w = weights[i];
    const Shape& shape = c.input(w.weights).shape();
    const int64_t n = shape[1], row_bytes = shape[2], k = row_bytes * w.per_byte();
    const int64_t block = w.block > 0 ? w.block : k, blocks = k / block;
    const uint8_t* bytes = c.input(w.weights).data<uint8_t>() + expert * n * row_bytes;
    const uint8_t* zeros = c.HasInput(w.zero_points) ? c.input(w.zero_points).data<uint8_t>() : nullptr;
    const float* scale = scales[i].data() + expert * n * blocks;
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t j = 0; j < k; ++j) {
        const int64_t b = j / block;
        const int zero = zeros ? w.ZeroPoint(zeros, n, blocks, expert, r, b) : 1 << (w.bits - 1);
        y[r] += static_cast<double>(w.Element(bytes + r * row_bytes, j) - zero) * scale[r * blocks + b] * x[j];
      }
    }
  };
  return EvaluateExperts(c, kQMoeInputs, form, sizes, RouteWeights::kSoftmaxOfChosen, outputs, multiply);
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr TypeSet kBytes = {DType::kU8};
constexpr Param kInputs[] = {{"input", "T", kTypes},
                             {"router_probs", "T", kTypes},
                             {"fc1_experts_weights", "T1", kBytes},
                             {"fc1_scales", "T2", kTypes, Arity::kOptional},
                             {"fc1_experts_bias", "T", kTypes, Arity::kOptional},
                             {"fc2_experts_weights", "T1", kBytes},
                             {"fc2_scales", "T2", kTypes, Arity::kOptional},
                             {"fc2_experts_bias", "T", kTypes, Arity::kOptional},
                             {"fc3_experts_weights", "T1", kBytes, Arity::kOptional},
                             {"fc3_scales", "T2", kTypes, Arity::kOptional},
                             {"fc3_experts_bias", "T", kTypes, Arity::kOptional},
                             {"fc1_zero_points", "T1", kBytes, Arity::kOptional},
                             {"fc2_zero_points", "T1", kBytes, Arity::kOptional},
                             {"fc3_zero_points", "T1", kBytes, Arity::kOptional},
                             {"router_weights", "T", kTypes, Arity::kOptional},
                             {"fc1_global_scale", "T4", kF32Type, Arity::kOptional},
                             {"fc2_global_scale", "T4", kF32Type, Arity::kOptional},
                             {"fc1_act_scale", "T4", kF32Type, Arity::kOptional},
                             {"fc2_act_scale", "T4", kF32Type, Arity::kOptional},
                             {"fc1_act_block_scale", "T2", kTypes, Arity::kOptional},
                             {"fc2_act_block_scale", "T2", kTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T", kTypes}};
constexpr AttrSpec kAttributes[] = {{"accuracy_level", AttrType::kInt, false, "0"},
                                    {"activation_alpha", AttrType::kFloat, false, "1"},
                                    {"activation_beta", AttrType::kFloat, false, "0"},
                                    {"activation_type", AttrType::kString, false, "relu"},
                                    {"block_size", AttrType::kInt},
                                    {"expert_weight_bits", AttrType::kInt, false, "4"},
                                    {"fc1_expert_weight_bits", AttrType::kInt},
                                    {"fc2_expert_weight_bits", AttrType::kInt},
                                    {"fc3_expert_weight_bits", AttrType::kInt},
                                    {"k", AttrType::kInt, false, "1"},
                                    {"normalize_routing_weights", AttrType::kInt, false, "0"},
                                    {"quant_type", AttrType::kString, false, "int"},
                                    {"swiglu_fusion", AttrType::kInt, false, "0"},
                                    {"swiglu_limit", AttrType::kFloat},
                                    {"use_sparse_mixer", AttrType::kInt, false, "0"},
                                    {"weights_prepacked", AttrType::kInt, false, "-1"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftQMoE = {"com.microsoft", "QMoE", kVersions};

}  // namespace quern
