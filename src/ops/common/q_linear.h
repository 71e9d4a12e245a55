// Operators of com.microsoft on tensors that are quantized as a whole: value = (q - zero point) * scale.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ops/common/eval_infer.h"
#include "ops/common/integer_io.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {

// Results are computed in double and rounded once, half to even.
struct TensorQuantization {
  double scale;
  int32_t zero_point;

  double ToReal(int32_t q) const { return scale * static_cast<double>(q - zero_point); }
  // The element of 8-bit type `to` next to `value`; the lowest for NaN.
  int32_t FromReal(double value, DType to) const {
    const IntegerRange range = RangeOf(to);
    const double low = static_cast<double>(range.low), high = static_cast<double>(range.high);
    const double q = std::nearbyint(value / scale) + zero_point;
    return static_cast<int32_t>(q > low ? std::min(q, high) : low);
  }
};

// The scale with which QLinearSoftmax stores its results: onnxruntime, whose operator it is, multiplies by 1 / scale
// rounded down (254, where the scale is 1 / 255 as float32 has it).
inline double SoftmaxScale(double scale) { return 1.0 / std::floor(1.0f / static_cast<float>(scale)); }

// Reads one scale and one zero point (0 when the input is omitted).
inline Result<TensorQuantization> ReadTensorQuantization(EvalContext& c, int scale, int zero_point) {
  const Tensor& t = c.input(scale);
  if (t.num_elements() != 1) {
    return c.Error("scale '" + c.node().input(scale)->name() + "' has " + std::to_string(t.num_elements()) +
                   " elements, 1 is needed");
  }
  QUERN_ASSIGN_OR_RETURN(const std::vector<int32_t> zero, ReadZeroPoints(c, zero_point, 1));
  return TensorQuantization{static_cast<double>(*t.data<float>()), zero[0]};
}

// Output 0[i] = f(value of input 0[i]), of input 0's type and shape. Inputs: x, scale, zero point, then those of y.
template <typename F>
Status EvaluateQLinearUnary(EvalContext& c, F f) {
  QUERN_ASSIGN_OR_RETURN(const TensorQuantization from, ReadTensorQuantization(c, 1, 2));
  QUERN_ASSIGN_OR_RETURN(const TensorQuantization to, ReadTensorQuantization(c, 3, 4));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, c.input(0).dtype(), c.input(0).shape()));
  const std::vector<int32_t> x = WidenIntegers(c.input(0));
  for (size_t i = 0; i < x.size(); ++i) StoreByte(y, i, to.FromReal(f(from.ToReal(x[i])), y.dtype()));
  return OkStatus();
}

inline constexpr Param kQLinearUnaryInputs[] = {{"X", "T", kByteTypes},
                                                {"X_scale", "", kF32Type},
                                                {"X_zero_point", "T", kByteTypes, Arity::kOptional},
                                                {"Y_scale", "", kF32Type},
                                                {"Y_zero_point", "T", kByteTypes, Arity::kOptional}};
inline constexpr Param kQLinearUnaryOutputs[] = {{"Y", "T", kByteTypes}};

// Output 0 has the broadcast shape of inputs 0 and 3.
Status InferQLinearBinary(InferContext& context);
// Output 0 = f(value of input 0, value of input 3), broadcast. Inputs: a, scale, zero point, the same of b, then the
// scale and zero point of the output.
Status EvaluateQLinearBinary(EvalContext& context, double (*f)(double a, double b));

inline constexpr Param kQLinearBinaryInputs[] = {{"A", "T", kByteTypes},
                                                 {"A_scale", "", kF32Type},
                                                 {"A_zero_point", "T", kByteTypes, Arity::kOptional},
                                                 {"B", "T", kByteTypes},
                                                 {"B_scale", "", kF32Type},
                                                 {"B_zero_point", "T", kByteTypes, Arity::kOptional},
                                                 {"C_scale", "", kF32Type},
                                                 {"C_zero_point", "T", kByteTypes, Arity::kOptional}};
inline constexpr Param kQLinearBinaryOutputs[] = {{"C", "T", kByteTypes}};

}  // namespace quern
