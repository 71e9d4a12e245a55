#include "ops/common/layer_norm.h"

#include <string>

#include "ops/common/normalization.h"

namespace quern {
namespace {

Status Infer(InferContext& c, DType result_type, DType statistic_type) {
  const std::optional<Dims> x = c.input_shape(0);
  ValueType statistic = ValueType::Tensor(statistic_type);
  if (x) {
    if (x->empty()) return c.Error("input '" + c.node().input(0)->name() + "' is a scalar");
    QUERN_ASSIGN_OR_RETURN(const int axis,
                           NormalizeAxis(c.node(), c.node().GetInt("axis", -1), static_cast<int>(x->size())));
    statistic.shape = *x;
    for (size_t d = axis; d < x->size(); ++d) (*statistic.shape)[d] = 1;
    for (int i = 1; i < c.num_inputs(); ++i) QUERN_RETURN_IF_ERROR(CheckBroadcastsToInput(c, i));
  }
  c.SetOutputType(0, ValueType::Tensor(result_type, x));
  for (int i = 1; i < c.num_outputs(); ++i) c.SetOutputType(i, statistic);
  return OkStatus();
}

}  // namespace

Status InferLayerNorm(InferContext& c) { return Infer(c, c.input_dtype(0), DType::kF32); }

Status InferLayerNormOfScaleType(InferContext& c) {
  const int64_t stash = c.node().GetInt("stash_type", 1);
  if (stash != 1 && stash != 11) {
    return c.Error("'stash_type' is " + std::to_string(stash) + "; 1 (float) or 11 (double) is needed");
  }
  return Infer(c, c.input_dtype(1), stash == 11 ? DType::kF64 : DType::kF32);
}

Status EvaluateLayerNorm(EvalContext& c, Status (*infer)(InferContext&), bool subtract_mean, int inverse_output) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, infer));
  const Shape& shape = outputs.shape(0);
  QUERN_ASSIGN_OR_RETURN(const NormRows rows, MakeNormRows(c.node(), shape));
  const double epsilon = c.node().GetFloat("epsilon", 1e-5f);
  return WithComputeType(c, c.input(0).dtype(), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(const NormParameter<T> scale, ReadNormParameter<T>(c, 1, shape, rows));
    QUERN_ASSIGN_OR_RETURN(const NormParameter<T> bias, ReadNormParameter<T>(c, 2, shape, rows));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    std::vector<T> means(static_cast<size_t>(rows.rows)), inverses(means.size());
    for (int64_t r = 0; r < rows.rows; ++r) {
      const T* in = x.data() + r * rows.count;
      Moments m{0, 0};
      if (subtract_mean) {
        m = MomentsOf(in, rows.count);
      } else {
        for (int64_t i = 0; i < rows.count; ++i) m.variance += static_cast<double>(in[i]) * in[i];
        m.variance /= static_cast<double>(rows.count);
      }
      const double inverse = 1.0 / std::sqrt(m.variance + epsilon);
      means[r] = static_cast<T>(m.mean);
      inverses[r] = static_cast<T>(inverse);
      for (int64_t i = 0; i < rows.count; ++i) {
        double v = (static_cast<double>(in[i]) - m.mean) * inverse;
        if (scale) v *= scale.At(r, i, rows.count);
        if (bias) v += bias.At(r, i, rows.count);
        y[r * rows.count + i] = static_cast<T>(v);
      }
    }
    y.Finish();
    for (int i : {inverse_output - 1, inverse_output}) {
      if (i < 1 || !c.HasOutput(i)) continue;
      QUERN_ASSIGN_OR_RETURN(FloatOutput<T> out, WriteFloats<T>(c, outputs, i));
      const std::vector<T>& from = i == inverse_output ? inverses : means;
      std::copy(from.begin(), from.end(), out.data());
      out.Finish();
    }
    return OkStatus();
  });
}

}  // namespace quern
