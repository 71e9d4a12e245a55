#include "ops/common/causal_conv_with_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/common/float_io.h"
#include "ops/common/head_attention.h"

namespace quern {
namespace {

enum Input { kInput, kWeight, kBias, kPastState };

// An error when input i is known to have another shape.
Status CheckShape(const InferContext& c, int i, const char* name, const Dims& wanted) {
  const std::optional<Dims> shape = c.input_shape(i);
  if (!shape) return OkStatus();
  bool fits = shape->size() == wanted.size();
  for (size_t d = 0; fits && d < wanted.size(); ++d) fits = !Differ((*shape)[d], wanted[d]);
  if (fits) return OkStatus();
  return c.Error(std::string(name) + " has shape " + DimsToString(*shape) + "; " + DimsToString(wanted) + " is needed");
}

Status CheckAttributes(const InferContext& c) {
  const std::string activation = c.node().GetString("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    return c.Error("attribute 'activation' is '" + activation + "'; none, silu or swish is needed");
  }
  const int64_t dilation = c.node().GetInt("dilation", 1), channels_last = c.node().GetInt("channels_last", 0);
  if (dilation < 1 || dilation > std::numeric_limits<int32_t>::max()) {
    return c.Error("'dilation' is " + std::to_string(dilation) + "; a number from 1 to 2^31 - 1 is needed");
  }
  if (channels_last != 0 && channels_last != 1) {
    return c.Error("'channels_last' is " + std::to_string(channels_last) + "; 0 or 1 is needed");
  }
  return OkStatus();
}

// The sum as an element of the output's type, which is what the activation of ai.onnx sees.
float RoundTo(DType dtype, double sum) {
  const float value = static_cast<float>(sum);
  if (dtype == DType::kF16) return static_cast<float>(Float16(value));
  return dtype == DType::kBF16 ? static_cast<float>(BFloat16(value)) : value;
}

}  // namespace

Status InferCausalConvWithState(InferContext& c) {
  QUERN_RETURN_IF_ERROR(CheckAttributes(c));
  const bool channels_last = c.node().GetInt("channels_last", 0) == 1;
  const std::optional<Dims> given = c.input_shape(kInput), weight = c.input_shape(kWeight);
  const Dim kernel = weight && weight->size() == 3 ? (*weight)[2] : Dim::Unknown();
  if (kernel.is_constant() && kernel.value() < 1) return c.Error("the kernel is empty");
  const Dim kept = (kernel - 1) * c.node().GetInt("dilation", 1);
  Dim channels = Dim::Unknown();
  std::optional<Dims> state;
  if (given && (channels_last ? given->size() < 3 : given->size() != 3)) {
    return c.Error(
        "the input has shape " + DimsToString(*given) + "; three dimensions" +
        (channels_last ? " or more are needed: batch, length, channels" : " are needed: batch, channel, length"));
  }
  if (given) {
    channels = channels_last ? Product({given->begin() + 2, given->end()}) : (*given)[1];
    state = *given;
    (*state)[channels_last ? 1 : 2] = kept;
  } else if (!channels_last) {
    state = Dims{Dim::Unknown(), Dim::Unknown(), kept};
  }
  QUERN_RETURN_IF_ERROR(CheckShape(c, kWeight, "the weight", {channels, 1, kernel}));
  QUERN_RETURN_IF_ERROR(CheckShape(c, kBias, "the bias", {channels}));
  if (state) QUERN_RETURN_IF_ERROR(CheckShape(c, kPastState, "past_state", *state));
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(kInput), given));
  c.SetOutputType(1, ValueType::Tensor(c.input_dtype(kInput), state));
  return OkStatus();
}

Status EvaluateCausalConvWithState(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, InferCausalConvWithState));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> x, ReadFloats<float>(c, kInput));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> weight, ReadFloats<float>(c, kWeight));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> bias, ReadFloats<float>(c, kBias));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> past, ReadFloats<float>(c, kPastState));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> present, WriteFloats<float>(c, outputs, 1));
  if (y.num_elements() == 0 && present.num_elements() == 0) return OkStatus();
  const Node& node = c.node();
  const bool activates = node.GetString("activation", "none") != "none";
  const bool channels_last = node.GetInt("channels_last", 0) == 1, rounds = node.domain().empty();
  const int axis = channels_last ? 1 : 2;
  const int64_t batch = outputs.shape(0)[0], length = outputs.shape(0)[axis], kept = outputs.shape(1)[axis];
  const int64_t channels = weight.shape()[0], taps = weight.shape()[2], dilation = node.GetInt("dilation", 1);
  // Where element t of a channel lies, among `extent` of them.
  const auto at = [&](int64_t b, int64_t channel, int64_t t, int64_t extent) {
    return channels_last ? (b * extent + t) * channels + channel : (b * channels + channel) * extent + t;
  };
  std::vector<float> line(static_cast<size_t>(kept + length));  // of one channel: state, then input
  for (int64_t row = 0; row < batch * channels; ++row) {
    const int64_t b = row / channels, channel = row % channels;
    for (int64_t t = 0; t < kept; ++t) line[t] = past ? past[at(b, channel, t, kept)] : 0.0f;
    for (int64_t t = 0; t < length; ++t) line[kept + t] = x[at(b, channel, t, length)];
    for (int64_t t = 0; t < length; ++t) {
      double sum = bias ? static_cast<double>(bias[channel]) : 0.0;
      for (int64_t k = 0; k < taps; ++k) {
        sum += static_cast<double>(weight[channel * taps + k]) * line[t + k * dilation];
      }
      if (rounds) sum = static_cast<double>(RoundTo(outputs.dtype(0), sum));
      y[at(b, channel, t, length)] = static_cast<float>(activates ? sum / (1.0 + std::exp(-sum)) : sum);
    }
    for (int64_t t = 0; t < kept; ++t) present[at(b, channel, t, kept)] = line[length + t];
  }
  y.Finish();
  present.Finish();
  return OkStatus();
}

}  // namespace quern
