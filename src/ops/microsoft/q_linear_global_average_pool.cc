// com.microsoft.QLinearGlobalAveragePool: mean of each channel of a quantized tensor.
#include "ops/common/plane_layout.h"
#include "ops/common/q_linear.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  std::optional<Dims> shape = c.input_shape(0);
  if (shape) {
    if (shape->size() < 3) {
      return c.Error("the input has shape " + DimsToString(*shape) +
                     "; a batch, a channel and at least one spatial dimension are needed");
    }
    Dims y = ChannelsSecond(c.node(), *shape);
    std::fill(y.begin() + 2, y.end(), Dim(1));
    shape = ChannelsAsGiven(c.node(), y);
  }
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), std::move(shape)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const TensorQuantization from, ReadTensorQuantization(c, 1, 2));
  QUERN_ASSIGN_OR_RETURN(const TensorQuantization to, ReadTensorQuantization(c, 3, 4));
  const PlaneLayout in = PlaneLayout::Of(c.node(), c.input(0).shape());
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  if (in.plane == 0 && y.num_elements() > 0) return c.Error("the input has no elements to pool");
  const std::vector<int32_t> x = WidenIntegers(c.input(0));
  for (int64_t n = 0; n < in.batch; ++n) {
    for (int64_t ch = 0; ch < in.channels; ++ch) {
      int64_t sum = 0;
      for (int64_t i = 0; i < in.plane; ++i) sum += x[in.At(n, ch, i)] - from.zero_point;
      const double mean = from.scale * static_cast<double>(sum) / static_cast<double>(in.plane);
      StoreByte(y, n * in.channels + ch, to.FromReal(mean, y.dtype()));
    }
  }
  return OkStatus();
}

constexpr Param kInputs[] = {{"X", "T", kByteTypes},
                             {"x_scale", "", kF32Type},
                             {"x_zero_point", "T", kByteTypes},
                             {"y_scale", "", kF32Type},
                             {"y_zero_point", "T", kByteTypes}};
constexpr AttrSpec kAttributes[] = {{"channels_last", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kQLinearUnaryOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftQLinearGlobalAveragePool = {"com.microsoft", "QLinearGlobalAveragePool",
                                                                            kVersions};

}  // namespace quern
