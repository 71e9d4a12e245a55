// What HannWindow, HammingWindow and BlackmanWindow share: f(t) sampled over one period of the cosine.
#pragma once

#include <cmath>
#include <numbers>

#include "ops/common/dtype_attribute.h"
#include "ops/common/eval_infer.h"
#include "ops/common/from_double.h"
#include "ops/common/scalar_input.h"

namespace quern {

// Output 0 is a vector of the length in input 0, of the type that attribute output_datatype gives.
inline Status InferWindow(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const DType dtype,
                         ReadDTypeAttribute(c.node(), "output_datatype", DType::kF32, kNumericTypes));
  QUERN_ASSIGN_OR_RETURN(const Dim size, InferScalar(c, 0));
  if (size.is_constant() && size.value() < 0) {
    return c.Error("the window's length is " + size.ToString() + ", which is negative");
  }
  c.SetOutputType(0, ValueType::Tensor(dtype, Dims{size}));
  return OkStatus();
}

// F::At(t) for t = 2 pi n / N. N is the length when the window repeats ('periodic'), else one less, so that both ends
// are equal. A symmetric window of one element, for which N is 0, is its peak: 1.
template <typename F>
Status EvaluateWindow(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, InferWindow));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  const int64_t size = y.num_elements();
  const int64_t period = c.node().GetInt("periodic", 1) != 0 ? size : size - 1;
  return DispatchNumeric(y.dtype(), [&]<typename T>() {
    for (int64_t n = 0; n < size; ++n) {
      const double turns = period == 0 ? 0.5 : static_cast<double>(n) / static_cast<double>(period);
      y.data<T>()[n] = FromDouble<T>(F::At(2.0 * std::numbers::pi * turns));
    }
    return OkStatus();
  });
}

inline constexpr Param kWindowInputs[] = {{"size", "T1", TypeSet{DType::kI32, DType::kI64}}};
inline constexpr Param kWindowOutputs[] = {{"output", "T2", kNumericTypes}};
inline constexpr AttrSpec kWindowAttributes[] = {{"output_datatype", AttrType::kInt, false, "1"},
                                                 {"periodic", AttrType::kInt, false, "1"}};
template <typename F>
inline constexpr OpVersion kWindowVersions[] = {
    {17, kWindowInputs, kWindowOutputs, kWindowAttributes, InferWindow, EvaluateWindow<F>}};

}  // namespace quern
