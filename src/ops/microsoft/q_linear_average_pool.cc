// com.microsoft.QLinearAveragePool: mean of each window of a quantized tensor, over the elements inside the input or
// (count_include_pad) all of the window, as onnxruntime, whose operator it is: also where ceil_mode lets the window end
// beyond the padding, which AveragePool does not count.
#include "ops/common/plane_layout.h"
#include "ops/common/pool.h"
#include "ops/common/q_linear.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferQuantizedPool(c, c.node().GetInt("channels_last", 0) != 0); }

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const TensorQuantization from, ReadTensorQuantization(c, 1, 2));
  QUERN_ASSIGN_OR_RETURN(const TensorQuantization to, ReadTensorQuantization(c, 3, 4));
  const Shape shape = c.input(0).shape();
  QUERN_ASSIGN_OR_RETURN(
      const Window3 w, MakePoolWindow(c, ChannelsSecond(c.node(), shape), ChannelsSecond(c.node(), outputs.shape(0))));
  const PlaneLayout in = PlaneLayout::Of(c.node(), shape), out = PlaneLayout::Of(c.node(), outputs.shape(0));
  const bool include_pad = c.node().GetInt("count_include_pad", 0) != 0;
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  if (y.num_elements() == 0) return OkStatus();
  const std::vector<int32_t> x = WidenIntegers(c.input(0));
  for (int64_t n = 0; n < in.batch; ++n) {
    for (int64_t ch = 0; ch < in.channels; ++ch) {
      int64_t sum = 0;
      double count = 0;
      ForEachWindow(
          w,
          [&](const int64_t*) {
            sum = 0;
            count = 0;
          },
          [&](int64_t i0, int64_t i1, int64_t i2) {
            sum += x[in.At(n, ch, (i0 * w.in[1] + i1) * w.in[2] + i2)] - from.zero_point;
            ++count;
          },
          [&](int64_t o) {
            const double divisor = include_pad ? AllTaps(w) : count;
            const double mean = divisor == 0 ? 0.0 : from.scale * static_cast<double>(sum) / divisor;
            StoreByte(y, out.At(n, ch, o), to.FromReal(mean, y.dtype()));
          });
    }
  }
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                    {"ceil_mode", AttrType::kInt, false, "0"},
                                    {"channels_last", AttrType::kInt, false, "0"},
                                    {"count_include_pad", AttrType::kInt, false, "0"},
                                    {"kernel_shape", AttrType::kInts, true},
                                    {"pads", AttrType::kInts},
                                    {"strides", AttrType::kInts}};
constexpr OpVersion kVersions[] = {{1, kQLinearUnaryInputs, kQLinearUnaryOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftQLinearAveragePool = {"com.microsoft", "QLinearAveragePool", kVersions};

}  // namespace quern
