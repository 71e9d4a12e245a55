// com.microsoft.LinearAttentionGate: decay = decay_scale * softplus(a + dt_bias) and beta = sigmoid(b) of
// LinearAttention.
#include <algorithm>
#include <cmath>

#include "ops/common/float_io.h"
#include "ops/common/head_attention.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

enum Input { kA, kBias, kScale, kB };

Status Infer(InferContext& c) {
  if (c.node().output(1) != nullptr && !c.HasInput(kB)) return c.Error("the output beta needs the input b");
  const std::optional<Dims> a = c.input_shape(kA);
  if (a && a->empty()) return c.Error("the input a is a scalar; a last dimension of heads is needed");
  for (const int i : {kBias, kScale}) {
    QUERN_RETURN_IF_ERROR(CheckInputShape(c, i, {a ? a->back() : Dim::Unknown()}));
  }
  if (a) QUERN_RETURN_IF_ERROR(CheckInputShape(c, kB, *a));
  for (const int o : {0, 1}) c.SetOutputType(o, ValueType::Tensor(c.input_dtype(kA), a));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> a, ReadFloats<float>(c, kA));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> bias, ReadFloats<float>(c, kBias));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> scale, ReadFloats<float>(c, kScale));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> decay, WriteFloats<float>(c, outputs, 0));
  const int64_t heads = bias.num_elements();
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = static_cast<double>(a[i]) + static_cast<double>(bias[i % heads]);
    const double softplus = std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
    decay[i] = static_cast<float>(static_cast<double>(scale[i % heads]) * softplus);
  }
  decay.Finish();
  if (!c.HasOutput(1)) return OkStatus();
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> b, ReadFloats<float>(c, kB));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> beta, WriteFloats<float>(c, outputs, 1));
  for (int64_t i = 0; i < b.num_elements(); ++i) {
    beta[i] = static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(b[i]))));
  }
  beta.Finish();
  return OkStatus();
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs[] = {{"a", "T", kTypes},
                             {"dt_bias", "TF", kF32Type},
                             {"decay_scale", "TF", kF32Type},
                             {"b", "T", kTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"decay", "T", kTypes}, {"beta", "T", kTypes, Arity::kOptional}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftLinearAttentionGate = {"com.microsoft", "LinearAttentionGate",
                                                                       kVersions};

}  // namespace quern
