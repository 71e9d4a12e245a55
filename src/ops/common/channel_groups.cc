#include "ops/common/channel_groups.h"

#include <cmath>
#include <string>
#include <vector>

#include "ops/common/head_attention.h"
#include "ops/common/normalization.h"

namespace quern {
namespace {

enum Input { kX, kGamma, kBeta, kSkip, kBias };

}  // namespace

Status InferChannelGroups(InferContext& c, bool skips) {
  const int64_t groups = c.node().GetInt("groups", 0), activation = c.node().GetInt("activation", 0);
  if (groups < 1) return c.Error("'groups' is " + std::to_string(groups) + "; a positive number is needed");
  if (activation != 0 && activation != 1) {
    return c.Error("'activation' is " + std::to_string(activation) + "; 0 (none) or 1 (SiLU) is needed");
  }
  const std::optional<Dims> x = c.input_shape(kX);
  for (int i = 0; i < 2; ++i) c.SetOutputType(i, ValueType::Tensor(c.input_dtype(kX), x));
  if (!x) return OkStatus();
  if (x->size() != 4) return c.Error("X has shape " + DimsToString(*x) + "; 4 dimensions are needed");
  const bool last = c.node().GetInt("channels_last", 1) != 0;
  const Dim channels = (*x)[last ? 3 : 1];
  if (channels.is_constant() && (channels.value() < groups || channels.value() % groups != 0)) {
    return c.Error("'groups' = " + std::to_string(groups) + " does not divide the " + channels.ToString() +
                   " channels");
  }
  for (const int i : {kGamma, kBeta}) QUERN_RETURN_IF_ERROR(CheckVector(c, i, channels));
  if (!skips) return OkStatus();
  if (c.HasInput(kBias)) QUERN_RETURN_IF_ERROR(CheckVector(c, kBias, channels));
  if (const std::optional<Dims> skip = c.input_shape(kSkip)) {
    if (skip->size() == 2) return CheckInputShape(c, kSkip, {(*x)[0], channels});
    const Dims one_each = last ? Dims{(*x)[0], 1, 1, channels} : Dims{(*x)[0], channels, 1, 1};
    if (skip->size() == 4 && (*skip)[2].is_constant(1) && (*skip)[last ? 1 : 3].is_constant(1)) {
      return CheckInputShape(c, kSkip, one_each);
    }
  }
  return CheckInputShape(c, kSkip, *x);
}

Status EvaluateChannelGroups(EvalContext& c, Status (*infer)(InferContext&), bool skips) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, infer));
  const Node& node = c.node();
  const bool last = node.GetInt("channels_last", 1) != 0, activates = node.GetInt("activation", 0) == 1;
  const Shape& shape = outputs.shape(0);
  const int64_t batch = shape[0], channels = shape[last ? 3 : 1];
  const int64_t area = last ? shape[1] * shape[2] : shape[2] * shape[3];
  const int64_t groups = node.GetInt("groups", 1), per_group = channels / groups;
  const double epsilon = node.GetFloat("epsilon", 1e-5f);
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> x, ReadFloats<float>(c, kX));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> gamma, ReadFloats<float>(c, kGamma));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> beta, ReadFloats<float>(c, kBeta));
  FloatInput<float> skip, bias;
  if (skips) {
    QUERN_ASSIGN_OR_RETURN(skip, ReadFloats<float>(c, kSkip));
    QUERN_ASSIGN_OR_RETURN(bias, ReadFloats<float>(c, kBias));
  }
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  FloatOutput<float> sums;
  if (c.HasOutput(1)) {
    QUERN_ASSIGN_OR_RETURN(sums, WriteFloats<float>(c, outputs, 1));
  }
  const bool whole = skip.num_elements() == x.num_elements();  // else one element per sample and channel
  std::vector<double> group(static_cast<size_t>(per_group * area));
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t g = 0; g < groups; ++g) {
      const auto for_each = [&](auto f) {
        int64_t e = 0;
        for (int64_t ch = g * per_group; ch < (g + 1) * per_group; ++ch) {
          for (int64_t a = 0; a < area; ++a) {
            f(e++, ch, last ? (n * area + a) * channels + ch : (n * channels + ch) * area + a);
          }
        }
      };
      for_each([&](int64_t e, int64_t ch, int64_t at) {
        group[e] = x[at];
        if (skip) group[e] += skip[whole ? at : n * channels + ch];
        if (bias) group[e] += bias[ch];
        if (c.HasOutput(1)) sums[at] = static_cast<float>(group[e]);
      });
      const Moments m = MomentsOf(group.data(), per_group * area);
      const double inverse = 1.0 / std::sqrt(m.variance + epsilon);
      for_each([&](int64_t e, int64_t ch, int64_t at) {
        const double v = (group[e] - m.mean) * inverse * gamma[ch] + beta[ch];
        y[at] = static_cast<float>(activates ? v / (1.0 + std::exp(-v)) : v);
      });
    }
  }
  y.Finish();
  if (c.HasOutput(1)) sums.Finish();
  return OkStatus();
}

}  // namespace quern
