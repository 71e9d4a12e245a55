#include "ops/common/q_linear_conv.h"

#include "ops/common/convolution_integer.h"

namespace quern {

Status InferQLinearConv(InferContext& c) { return InferConv(c, {0, 3, 8}, c.input_dtype(7)); }

Status EvaluateQLinearConv(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(InferredOutputs outputs, InferredOutputs::Make(c, InferQLinearConv));
  QUERN_ASSIGN_OR_RETURN(ConvSizes sizes,
                         MakeConvSizes(c, ChannelsSecond(c.node(), c.input(0).shape()), c.input(3).shape(),
                                       ChannelsSecond(c.node(), outputs.shape(0))));
  const Tensor &x_scale = c.input(1), &w_scale = c.input(4), &y_scale = c.input(6);
  if (x_scale.num_elements() != 1 || y_scale.num_elements() != 1) {
    return c.Error("x_scale and y_scale must have one element each");
  }
  if (w_scale.num_elements() != 1 && w_scale.num_elements() != sizes.out_channels) {
    return c.Error("w_scale has " + std::to_string(w_scale.num_elements()) + " elements; 1 or " +
                   std::to_string(sizes.out_channels) + " are needed");
  }
  QUERN_ASSIGN_OR_RETURN(std::vector<int32_t> y_zero, ReadZeroPoints(c, 7, 1));
  QUERN_ASSIGN_OR_RETURN(Tensor y, outputs.Allocate(c, 0));
  const int32_t* bias = c.HasInput(8) ? c.input(8).data<int32_t>() : nullptr;
  const int64_t plane = sizes.window.out_size();
  const PlaneLayout layout = PlaneLayout::Of(c.node(), outputs.shape(0));
  return ConvolveIntegers(c, {0, 2, 3, 5}, sizes, [&](int64_t n, int64_t m, const int64_t* sums) {
    const float weight_scale = w_scale.data<float>()[w_scale.num_elements() == 1 ? 0 : m];
    const float ratio = x_scale.data<float>()[0] * weight_scale / y_scale.data<float>()[0];
    const int64_t add = bias ? bias[m] : 0;
    for (int64_t i = 0; i < plane; ++i) {
      const float sum = static_cast<float>(static_cast<int32_t>(sums[i] + add));
      StoreByte(y, layout.At(n, m, i), RequantizeToByte(sum * ratio, y_zero[0], y.dtype()));
    }
  });
}

}  // namespace quern
