#include <algorithm>
#include <cmath>

#include "base/round_to_odd.h"
#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/dtype_attribute.h"
#include "ops/common/eval_infer.h"
#include "ops/common/integer_io.h"
#include "ops/common/quantization.h"
#include "ops/common/small_types.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

// The type of the zero point, else attribute output_dtype, else u8.
Result<DType> OutputType(const InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const DType given,
                         ReadDTypeAttribute(c.node(), "output_dtype", DType::kUndefined, AnyDTypeOrNone()));
  if (!c.HasInput(2)) return given == DType::kUndefined ? DType::kU8 : given;
  const DType zero_point = c.input_dtype(2);
  if (given != DType::kUndefined && zero_point != DType::kUndefined && given != zero_point) {
    return c.Error(std::string("attribute 'output_dtype' says ") + DTypeName(given) +
                   " but the zero point is of type " + DTypeName(zero_point));
  }
  return zero_point;
}

// The type that x, the scale and their quotient are rounded to; f64 stands for none.
Result<DType> Precision(const Node& node, DType scale) {
  QUERN_ASSIGN_OR_RETURN(const DType given, ReadDTypeAttribute(node, "precision", DType::kUndefined, AnyDTypeOrNone()));
  if (given == DType::kUndefined) {
    // A power of two has no precision of its own; quotients of integers are exact until they are rounded to one.
    return scale == DType::kF8E8M0 ? DType::kF32 : scale == DType::kI32 ? DType::kF64 : scale;
  }
  if (kFloatTypes.Has(given)) return given;
  return InvalidArgument(node.Describe() + ": attribute 'precision' says " + DTypeName(given) +
                         ", a float type is needed");
}

// Exact for quotients of numbers of type `precision`, too: double has more than twice their digits.
double RoundTo(DType precision, double x) {
  switch (precision) {
    case DType::kF16:
      return F16BitsToF32(F32ToF16Bits(RoundToOdd(x)));
    case DType::kBF16:
      return Bf16BitsToF32(F32ToBf16Bits(RoundToOdd(x)));
    case DType::kF32:
      return static_cast<float>(x);
    default:
      return x;
  }
}

// The elements of input i, rounded to `precision`.
Result<std::vector<double>> ReadRounded(EvalContext& c, int i, DType precision) {
  const Tensor& t = c.input(i);
  std::vector<double> values(static_cast<size_t>(t.num_elements()));
  if (t.dtype() == DType::kF8E8M0) {
    std::vector<float> powers(values.size());
    LoadSmallFloats(t, 0, t.num_elements(), powers.data());
    std::copy(powers.begin(), powers.end(), values.begin());
  } else {
    QUERN_RETURN_IF_ERROR(DispatchType(Types<float, Float16, BFloat16, int32_t>{}, t.dtype(), [&]<typename T>() {
      const T* x = t.data<T>();
      for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<double>(static_cast<ComputeType<T>>(x[k]));
      return OkStatus();
    }));
  }
  for (double& v : values) v = RoundTo(precision, v);
  return values;
}

}  // namespace

Status InferQuantizeLinear(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const DType type, OutputType(c));
  QUERN_RETURN_IF_ERROR(Precision(c.node(), c.input_dtype(1)).status());
  return InferQuantization(c, type);
}

Status EvaluateQuantizeLinear(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, InferQuantizeLinear));
  const DType type = outputs.dtype(0);
  QUERN_ASSIGN_OR_RETURN(const DType precision, Precision(c.node(), c.input(1).dtype()));
  QUERN_ASSIGN_OR_RETURN(const std::vector<double> x, ReadRounded(c, 0, precision));
  QUERN_ASSIGN_OR_RETURN(const std::vector<double> scale, ReadRounded(c, 1, precision));
  QUERN_ASSIGN_OR_RETURN(const QuantizationLayout layout,
                         QuantizationLayout::Make(c, c.input(0).shape(), c.input(1).shape()));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  const auto quotient = [&](int64_t i, int64_t p) { return RoundTo(precision, x[i] / scale[p]); };
  if (IsSmallFloat(type)) {
    QUERN_ASSIGN_OR_RETURN(const SmallFloatRules rules, ReadSmallFloatRules(c.node()));
    std::vector<float> zero(scale.size(), 0.0f), quantized(x.size());
    if (c.HasInput(2)) LoadSmallFloats(c.input(2), 0, c.input(2).num_elements(), zero.data());
    layout.ForEach([&](int64_t i, int64_t p) {
      // Without a zero point a quotient of -0 stays.
      quantized[i] = RoundToOdd(zero[p] == 0 ? quotient(i, p) : quotient(i, p) + zero[p]);
    });
    StoreSmallFloats(quantized.data(), 0, y.num_elements(), rules, y);
    return OkStatus();
  }
  std::vector<int32_t> zero(scale.size(), 0), quantized(x.size());
  if (c.HasInput(2)) zero = WidenIntegers(c.input(2));
  const IntegerRange range = RangeOf(type);
  const double low = static_cast<double>(range.low), high = static_cast<double>(range.high);
  layout.ForEach([&](int64_t i, int64_t p) {
    const double shifted = std::nearbyint(quotient(i, p)) + zero[p];
    quantized[i] = static_cast<int32_t>(shifted > low ? std::min(shifted, high) : low);  // a NaN becomes the lowest
  });
  NarrowIntegers(quantized, y);
  return OkStatus();
}

}  // namespace quern
