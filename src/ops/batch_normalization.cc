// BatchNormalization: per-channel normalization by given statistics, or (training) by those of the batch.
#include <cmath>
#include <vector>

#include "ops/common/normalization.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

// Mean and variance of a training step, and the running ones, all per channel.
struct Statistics {
  std::vector<double> mean, variance;
};

template <typename T>
Statistics BatchStatistics(const FloatInput<T>& x, int64_t batch, int64_t channels, int64_t plane) {
  Statistics s{std::vector<double>(channels), std::vector<double>(channels)};
  const double count = static_cast<double>(batch * plane);
  for (int64_t ch = 0; ch < channels; ++ch) {
    double sum = 0, squares = 0;
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t i = 0; i < plane; ++i) sum += static_cast<double>(x[(n * channels + ch) * plane + i]);
    }
    s.mean[ch] = sum / count;
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t i = 0; i < plane; ++i) {
        const double d = static_cast<double>(x[(n * channels + ch) * plane + i]) - s.mean[ch];
        squares += d * d;
      }
    }
    s.variance[ch] = squares / count;
  }
  return s;
}

bool IsTraining(const Node& node) {
  if (node.opset() >= 14) return node.GetInt("training_mode", 0) != 0;
  if (node.opset() < 7) return node.GetInt("is_test", 0) == 0 && node.num_outputs() > 1;
  return node.num_outputs() > 1;
}

Status Infer(InferContext& c) {
  if (c.node().opset() < 9 && c.node().GetInt("spatial", 1) == 0) {
    return Unsupported(c.node().Describe() + ": 'spatial' = 0 (statistics per element) is not supported");
  }
  QUERN_RETURN_IF_ERROR(InferPerChannel(c, 4));
  for (int i = 1; i < c.num_outputs(); ++i) {
    ValueType type = c.input_type(i == 1 || i == 3 ? 3 : 4);
    if (const std::optional<Dims> x = c.input_shape(0)) type.shape = Dims{x->size() > 1 ? (*x)[1] : Dim(1)};
    c.SetOutputType(i, std::move(type));
  }
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Shape& shape = outputs.shape(0);
  const int64_t batch = shape[0], channels = shape.rank() > 1 ? shape[1] : 1;
  const int64_t plane = shape.rank() > 2 ? shape.num_elements(2, shape.rank()) : 1;
  const double epsilon = c.node().GetFloat("epsilon", 1e-5f), momentum = c.node().GetFloat("momentum", 0.9f);
  const bool training = IsTraining(c.node());
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> scale, ReadFloats<T>(c, 1));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> bias, ReadFloats<T>(c, 2));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> mean, ReadFloats<T>(c, 3));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> variance, ReadFloats<T>(c, 4));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    Statistics s{std::vector<double>(mean.data(), mean.data() + channels),
                 std::vector<double>(variance.data(), variance.data() + channels)};
    if (training) s = BatchStatistics(x, batch, channels, plane);
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t ch = 0; ch < channels; ++ch) {
        const double factor = static_cast<double>(scale[ch]) / std::sqrt(s.variance[ch] + epsilon);
        const int64_t at = (n * channels + ch) * plane;
        for (int64_t i = 0; i < plane; ++i) {
          y[at + i] = static_cast<T>((static_cast<double>(x[at + i]) - s.mean[ch]) * factor + bias[ch]);
        }
      }
    }
    y.Finish();
    // Outputs 1 and 2 continue the running statistics, 3 and 4 (old versions) are those of this batch.
    for (int i = 1; i < c.num_outputs(); ++i) {
      if (!c.HasOutput(i)) continue;
      QUERN_ASSIGN_OR_RETURN(FloatOutput<T> out, WriteFloats<T>(c, outputs, i));
      const bool is_mean = i % 2 == 1;
      const FloatInput<T>& running = is_mean ? mean : variance;
      for (int64_t ch = 0; ch < channels; ++ch) {
        const double current = is_mean ? s.mean[ch] : s.variance[ch];
        out[ch] = static_cast<T>(i > 2 ? current : running[ch] * momentum + current * (1.0 - momentum));
      }
      out.Finish();
    }
    return OkStatus();
  });
}

constexpr Param kInputs6[] = {{"X", "T", kOldFloatTypes},
                              {"scale", "T", kOldFloatTypes},
                              {"B", "T", kOldFloatTypes},
                              {"mean", "T", kOldFloatTypes},
                              {"var", "T", kOldFloatTypes}};
constexpr Param kOutputs6[] = {{"Y", "T", kOldFloatTypes},
                               {"mean", "T", kOldFloatTypes, Arity::kOptional},
                               {"var", "T", kOldFloatTypes, Arity::kOptional},
                               {"saved_mean", "T", kOldFloatTypes, Arity::kOptional},
                               {"saved_var", "T", kOldFloatTypes, Arity::kOptional}};
constexpr AttrSpec kAttributes6[] = {{"epsilon", AttrType::kFloat, false, "1e-05"},
                                     {"is_test", AttrType::kInt, false, "0"},
                                     {"momentum", AttrType::kFloat, false, "0.9"},
                                     {"spatial", AttrType::kInt, false, "1"}};
constexpr AttrSpec kAttributes7[] = {{"epsilon", AttrType::kFloat, false, "1e-05"},
                                     {"momentum", AttrType::kFloat, false, "0.9"},
                                     {"spatial", AttrType::kInt, false, "1"}};
constexpr AttrSpec kAttributes9[] = {{"epsilon", AttrType::kFloat, false, "1e-05"},
                                     {"momentum", AttrType::kFloat, false, "0.9"}};
constexpr Param kInputs14[] = {{"X", "T", kFloatTypes},
                               {"scale", "T", kFloatTypes},
                               {"B", "T", kFloatTypes},
                               {"input_mean", "U", kFloatTypes},
                               {"input_var", "U", kFloatTypes}};
constexpr Param kOutputs14[] = {{"Y", "T", kFloatTypes},
                                {"running_mean", "U", kFloatTypes, Arity::kOptional},
                                {"running_var", "U", kFloatTypes, Arity::kOptional}};
constexpr AttrSpec kAttributes14[] = {{"epsilon", AttrType::kFloat, false, "1e-05"},
                                      {"momentum", AttrType::kFloat, false, "0.9"},
                                      {"training_mode", AttrType::kInt, false, "0"}};
constexpr Param kInputs15[] = {{"X", "T", kFloatTypes},
                               {"scale", "T1", kFloatTypes},
                               {"B", "T1", kFloatTypes},
                               {"input_mean", "T2", kFloatTypes},
                               {"input_var", "T2", kFloatTypes}};
constexpr Param kOutputs15[] = {{"Y", "T", kFloatTypes},
                                {"running_mean", "T2", kFloatTypes, Arity::kOptional},
                                {"running_var", "T2", kFloatTypes, Arity::kOptional}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, kAttributes6, Infer, Evaluate},
                                   {7, kInputs6, kOutputs6, kAttributes7, Infer, Evaluate},
                                   {9, kInputs6, kOutputs6, kAttributes9, Infer, Evaluate},
                                   {14, kInputs14, kOutputs14, kAttributes14, Infer, Evaluate},
                                   {15, kInputs15, kOutputs15, kAttributes14, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpBatchNormalization = {"", "BatchNormalization", kVersions};

}  // namespace quern
