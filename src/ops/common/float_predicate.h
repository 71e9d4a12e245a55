// What IsNaN and IsInf share: a bool for each element of any float type.
#pragma once

#include <vector>

#include "ops/common/elementwise.h"
#include "ops/common/small_types.h"

namespace quern {

inline Status InferFloatPredicate(InferContext& c) {
  c.SetOutputType(0, ValueType::Tensor(DType::kBool, c.input_shape(0)));
  return OkStatus();
}

// Output 0 = f(input 0); f takes float and double.
template <typename F>
Status EvaluateFloatPredicate(EvalContext& c, F f) {
  const Tensor& x = c.input(0);
  if (!IsSmallFloat(x.dtype())) return EvaluateUnaryToBool(c, FloatTypeList{}, f);
  std::vector<float> values(static_cast<size_t>(x.num_elements()));
  LoadSmallFloats(x, 0, x.num_elements(), values.data());
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, DType::kBool, x.shape()));
  std::transform(values.begin(), values.end(), y.data<bool>(), f);
  return OkStatus();
}

}  // namespace quern
