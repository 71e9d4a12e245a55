#include "ops/common/any_types.h"
#include "ops/common/dtype_attribute.h"
#include "ops/common/float_io.h"
#include "ops/common/integer_io.h"
#include "ops/common/quantization.h"
#include "ops/common/small_types.h"

namespace quern {

Status InferDequantizeLinear(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const DType given,
                         ReadDTypeAttribute(c.node(), "output_dtype", DType::kUndefined, AnyDTypeOrNone()));
  const DType type = given != DType::kUndefined ? given : c.input_dtype(1);
  if (type == DType::kF8E8M0) return c.Error("scales of type f8e8m0 need the attribute 'output_dtype'");
  return InferQuantization(c, type);
}

Status EvaluateDequantizeLinear(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, InferDequantizeLinear));
  const Tensor &x = c.input(0), &scales = c.input(1);
  QUERN_ASSIGN_OR_RETURN(const QuantizationLayout layout, QuantizationLayout::Make(c, x.shape(), scales.shape()));
  std::vector<float> scale(static_cast<size_t>(scales.num_elements()));
  if (scales.dtype() == DType::kF8E8M0) {
    LoadSmallFloats(scales, 0, scales.num_elements(), scale.data());
  } else {
    WidenFloats<float>(scales.dtype(), scales.raw_data(), scales.num_elements(), scale.data());
  }
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  if (IsSmallFloat(x.dtype())) {
    std::vector<float> values(static_cast<size_t>(x.num_elements())), zero(scale.size(), 0.0f);
    LoadSmallFloats(x, 0, x.num_elements(), values.data());
    if (c.HasInput(2)) LoadSmallFloats(c.input(2), 0, c.input(2).num_elements(), zero.data());
    layout.ForEach([&](int64_t i, int64_t p) { y[i] = (zero[p] == 0 ? values[i] : values[i] - zero[p]) * scale[p]; });
  } else {
    const std::vector<int32_t> values = WidenIntegers(x);
    std::vector<int32_t> zero(scale.size(), 0);
    if (c.HasInput(2)) zero = WidenIntegers(c.input(2));
    layout.ForEach([&](int64_t i, int64_t p) { y[i] = static_cast<float>(int64_t{values[i]} - zero[p]) * scale[p]; });
  }
  y.Finish();
  return OkStatus();
}

}  // namespace quern
