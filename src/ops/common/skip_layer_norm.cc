#include "ops/common/skip_layer_norm.h"

#include "ops/common/normalization.h"

namespace quern {

Status InferSkipLayerNorm(InferContext& c, SkipNormInputs in) {
  const std::optional<Dims> x = c.input_shape(0);
  std::optional<Dims> statistic;
  if (x) {
    if (x->empty()) return c.Error("input '" + c.node().input(0)->name() + "' is a scalar");
    QUERN_RETURN_IF_ERROR(CheckBroadcastsToInput(c, 1));
    for (int i : {in.gamma, in.beta, in.bias}) {
      if (i >= 0 && c.HasInput(i)) QUERN_RETURN_IF_ERROR(CheckVector(c, i, x->back()));
    }
    statistic = x;
    statistic->back() = 1;
  }
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), x));
  c.SetOutputType(1, ValueType::Tensor(DType::kF32, statistic));
  c.SetOutputType(2, ValueType::Tensor(DType::kF32, statistic));
  c.SetOutputType(3, ValueType::Tensor(c.input_dtype(0), x));
  return OkStatus();
}

Status EvaluateSkipLayerNorm(EvalContext& c, Status (*infer)(InferContext&), SkipNormInputs in) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, infer));
  const Shape& shape = outputs.shape(0);
  const int64_t count = shape.back(), rows = shape.num_elements(0, shape.rank() - 1);
  const double epsilon = c.node().GetFloat("epsilon", 1e-12f);
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(const NormParameter<T> skip, ReadNormParameter<T>(c, 1, shape, {0, 1, rows * count}));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> gamma, ReadFloats<T>(c, in.gamma));
    FloatInput<T> beta, bias;
    if (in.beta >= 0) {
      QUERN_ASSIGN_OR_RETURN(beta, ReadFloats<T>(c, in.beta));
    }
    QUERN_ASSIGN_OR_RETURN(bias, ReadFloats<T>(c, in.bias));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    FloatOutput<T> extra[4];
    for (int i = 1; i < 4; ++i) {
      if (c.HasOutput(i)) {
        QUERN_ASSIGN_OR_RETURN(extra[i], WriteFloats<T>(c, outputs, i));
      }
    }
    std::vector<T> sum(static_cast<size_t>(count));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < count; ++i) {
        double v = static_cast<double>(x[r * count + i]) + skip.values[r * count + i];
        if (bias) v += bias[i];
        sum[i] = static_cast<T>(v);
        if (c.HasOutput(3)) extra[3][r * count + i] = sum[i];
      }
      Moments m{0, 0};
      if (in.subtract_mean) {
        m = MomentsOf(sum.data(), count);
      } else {
        for (const T v : sum) m.variance += static_cast<double>(v) * v;
        m.variance /= static_cast<double>(count);
      }
      const double inverse = 1.0 / std::sqrt(m.variance + epsilon);
      for (int64_t i = 0; i < count; ++i) {
        const double v = (sum[i] - m.mean) * inverse * gamma[i];
        y[r * count + i] = static_cast<T>(beta ? v + beta[i] : v);
      }
      if (c.HasOutput(1)) extra[1][r] = static_cast<T>(m.mean);
      if (c.HasOutput(2)) extra[2][r] = static_cast<T>(inverse);
    }
    y.Finish();
    for (int i = 1; i < 4; ++i) {
      if (c.HasOutput(i)) extra[i].Finish();
    }
    return OkStatus();
  });
}

}  // namespace quern
