#include "ops/common/convolution.h"

#include <string>

#include "ops/common/float_io.h"
#include "ops/common/plane_layout.h"

namespace quern {

Status InferConv(InferContext& c, ConvInputs in, DType dtype) {
  std::optional<Dims> x = c.input_shape(in.x);
  const std::optional<Dims> w = c.input_shape(in.weight);
  const int64_t groups = c.node().GetInt("group", 1);
  if (groups < 1) return c.Error("attribute 'group' is " + std::to_string(groups) + "; at least 1 is needed");
  const auto name = [&](int i) { return "'" + c.node().input(i)->name() + "'"; };
  for (int i : {in.x, in.weight}) {
    const std::optional<Dims>& shape = i == in.x ? x : w;
    if (shape && shape->size() < 3) {
      return c.Error("input " + name(i) + " has shape " + DimsToString(*shape) +
                     "; a batch, a channel and at least one spatial dimension are needed");
    }
  }
  if (x && w && x->size() != w->size()) {
    return c.Error("input " + name(in.x) + " has " + std::to_string(x->size()) + " dimensions but the weight has " +
                   std::to_string(w->size()));
  }
  if (x) x = ChannelsSecond(c.node(), *x);
  if (!x && !w) {
    c.SetOutputType(0, ValueType::Tensor(dtype));
    return OkStatus();
  }
  Dims output;
  output.push_back(x ? (*x)[0] : Dim::Unknown());
  output.push_back(w ? (*w)[0] : Dim::Unknown());
  const int spatial = static_cast<int>((x ? *x : *w).size()) - 2;
  if (w) {
    const Dim& m = (*w)[0];
    if (m.is_constant() && m.value() % groups != 0) {
      return c.Error("the weight has " + m.ToString() + " output channels, which 'group' = " + std::to_string(groups) +
                     " does not divide");
    }
    const Dim channels = (*w)[1] * groups;
    if (x && (*x)[1].is_constant() && channels.is_constant() && (*x)[1].value() != channels.value()) {
      return c.Error("input " + name(in.x) + " has " + (*x)[1].ToString() + " channels but the weight expects " +
                     channels.ToString());
    }
    if (in.bias >= 0 && c.HasInput(in.bias)) {
      const std::optional<Dims> b = c.input_shape(in.bias);
      if (b && (b->size() != 1 || ((*b)[0].is_constant() && m.is_constant() && (*b)[0].value() != m.value()))) {
        return c.Error("bias " + name(in.bias) + " has shape " + DimsToString(*b) + " but the weight has " +
                       m.ToString() + " output channels");
      }
    }
  }
  if (!x || (!w && c.node().GetInts("kernel_shape").empty())) {
    for (int d = 0; d < spatial; ++d) output.push_back(Dim::Unknown());
  } else {
    std::optional<Dims> kernel;
    if (w) kernel = Dims(w->begin() + 2, w->end());
    QUERN_ASSIGN_OR_RETURN(Window window, ReadWindow(c.node(), spatial, kernel));
    QUERN_ASSIGN_OR_RETURN(Dims rest, WindowOutput(c.node(), window, Dims(x->begin() + 2, x->end())));
    output.insert(output.end(), rest.begin(), rest.end());
  }
  c.SetOutputType(0, ValueType::Tensor(dtype, ChannelsAsGiven(c.node(), output)));
  return OkStatus();
}

Result<ConvSizes> MakeConvSizes(const EvalContext& c, const Shape& x, const Shape& weight, const Shape& output) {
  Dims kernel;
  for (int d = 2; d < weight.rank(); ++d) kernel.push_back(weight[d]);
  QUERN_ASSIGN_OR_RETURN(Window window, ReadWindow(c.node(), x.rank() - 2, kernel));
  ConvSizes s{x[0], x[1], weight[0], c.node().GetInt("group", 1), {}};
  QUERN_ASSIGN_OR_RETURN(s.window, MakeWindow3(c.node(), window, x, output));
  return s;
}

Status EvaluateFloatConv(EvalContext& c, int addend, const std::function<double(double)>& activation) {
  const auto infer = [](InferContext& ic) { return InferConv(ic, {}, ic.input_dtype(0)); };
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, infer));
  QUERN_ASSIGN_OR_RETURN(const ConvSizes sizes,
                         MakeConvSizes(c, c.input(0).shape(), c.input(1).shape(), outputs.shape(0)));
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> weight, ReadFloats<T>(c, 1));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> bias, ReadFloats<T>(c, 2));
    FloatInput<T> add;
    if (addend >= 0) {
      QUERN_ASSIGN_OR_RETURN(add, ReadFloats<T>(c, addend));
      if (add && !(add.shape() == outputs.shape(0))) {
        return c.Error("the added tensor has shape " + add.shape().ToString() + " but the output has " +
                       outputs.shape(0).ToString());
      }
    }
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    const int64_t plane = sizes.window.out_size();
    Convolve<T, double>(sizes, x.data(), weight.data(), [&](int64_t n, int64_t m, const double* sums) {
      const int64_t at = (n * sizes.out_channels + m) * plane;
      const double constant = bias ? static_cast<double>(bias[m]) : 0.0;
      for (int64_t i = 0; i < plane; ++i) {
        double v = sums[i] + constant;
        if (add) v += static_cast<double>(add[at + i]);
        y[at + i] = static_cast<T>(activation ? activation(v) : v);
      }
    });
    y.Finish();
    return OkStatus();
  });
}

}  // namespace quern
