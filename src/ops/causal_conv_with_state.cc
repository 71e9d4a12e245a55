// CausalConvWithState: depthwise convolution over time of the state's last elements followed by the input's.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ops/common/float_io.h"
#include "ops/op.h"

namespace quern {
namespace {

enum Input { kInput, kWeight, kBias, kPastState };

bool Differ(const Dim& a, const Dim& b) { return a.is_constant() && b.is_constant() && a.value() != b.value(); }

// An error when input i is known to have another shape.
Status CheckShape(const InferContext& c, int i, const char* name, const Dims& wanted) {
  const std::optional<Dims> shape = c.input_shape(i);
  if (!shape) return OkStatus();
  bool fits = shape->size() == wanted.size();
  for (size_t d = 0; fits && d < wanted.size(); ++d) fits = !Differ((*shape)[d], wanted[d]);
  if (fits) return OkStatus();
  return c.Error(std::string(name) + " has shape " + DimsToString(*shape) + "; " + DimsToString(wanted) + " is needed");
}

Status Infer(InferContext& c) {
  const std::string activation = c.node().GetString("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    return c.Error("attribute 'activation' is '" + activation + "'; none, silu or swish is needed");
  }
  const std::optional<Dims> given = c.input_shape(kInput), weight = c.input_shape(kWeight);
  const Dims x = given ? *given : Dims{Dim::Unknown(), Dim::Unknown(), Dim::Unknown()};
  if (x.size() != 3) {
    return c.Error("the input has shape " + DimsToString(x) + "; three dimensions are needed: batch, channel, length");
  }
  const Dim kernel = weight && weight->size() == 3 ? (*weight)[2] : Dim::Unknown();
  QUERN_RETURN_IF_ERROR(CheckShape(c, kWeight, "the weight", {x[1], 1, kernel}));
  if (kernel.is_constant() && kernel.value() < 1) return c.Error("the kernel is empty");
  const Dims state = {x[0], x[1], kernel - 1};
  QUERN_RETURN_IF_ERROR(CheckShape(c, kBias, "the bias", {x[1]}));
  QUERN_RETURN_IF_ERROR(CheckShape(c, kPastState, "past_state", state));
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(kInput), given));
  c.SetOutputType(1, ValueType::Tensor(c.input_dtype(kInput), state));
  return OkStatus();
}

// The sum as an element of the output's type, which is what the activation sees.
float RoundTo(DType dtype, double sum) {
  const float value = static_cast<float>(sum);
  if (dtype == DType::kF16) return static_cast<float>(Float16(value));
  return dtype == DType::kBF16 ? static_cast<float>(BFloat16(value)) : value;
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Shape shape = outputs.shape(0);
  const int64_t length = shape[2], kept = outputs.shape(1)[2];
  const bool activates = c.node().GetString("activation", "none") != "none";
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> x, ReadFloats<float>(c, kInput));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> weight, ReadFloats<float>(c, kWeight));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> bias, ReadFloats<float>(c, kBias));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> past, ReadFloats<float>(c, kPastState));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> present, WriteFloats<float>(c, outputs, 1));
  if (y.num_elements() == 0 && present.num_elements() == 0) return OkStatus();
  std::vector<float> line(static_cast<size_t>(kept + length));  // of one channel: state, then input
  for (int64_t row = 0; row < shape[0] * shape[1]; ++row) {
    const int64_t channel = row % shape[1];
    if (past) std::copy_n(past.data() + row * kept, kept, line.begin());
    std::copy_n(x.data() + row * length, length, line.begin() + kept);
    for (int64_t t = 0; t < length; ++t) {
      double sum = bias ? static_cast<double>(bias[channel]) : 0.0;
      for (int64_t k = 0; k <= kept; ++k) sum += static_cast<double>(weight[channel * (kept + 1) + k]) * line[t + k];
      const double value = static_cast<double>(RoundTo(outputs.dtype(0), sum));
      y[row * length + t] = static_cast<float>(activates ? value / (1.0 + std::exp(-value)) : value);
    }
    std::copy_n(line.begin() + length, kept, present.data() + row * kept);
  }
  y.Finish();
  present.Finish();
  return OkStatus();
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs[] = {{"input", "T", kTypes},
                             {"weight", "T", kTypes},
                             {"bias", "T", kTypes, Arity::kOptional},
                             {"past_state", "T", kTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output", "T", kTypes}, {"present_state", "T", kTypes}};
constexpr AttrSpec kAttributes[] = {{"activation", AttrType::kString, false, "none"}};
constexpr OpVersion kVersions[] = {{27, kInputs, kOutputs, kAttributes, Infer, Evaluate, 2}};

}  // namespace

extern constinit const OpDefinition kOpCausalConvWithState = {"", "CausalConvWithState", kVersions};

}  // namespace quern
