// QuantizeLinear and DequantizeLinear of every domain and version: which scale and zero point belong to which element.
#pragma once

#include "ops/op.h"

namespace quern {

// Checks scale (input 1) and zero point (input 2) against input 0: one of each, one per index of 'axis', or
// (block_size) one per block along 'axis'. Output 0 has input 0's shape and element type `dtype`, which must be one of
// those that the node's operator set gives for it.
Status InferQuantization(InferContext& context, DType dtype);

// y (output 0) = saturate(rint(x / y_scale) + y_zero_point).
Status InferQuantizeLinear(InferContext& context);
Status EvaluateQuantizeLinear(EvalContext& context);
// y (output 0) = (x - x_zero_point) * x_scale.
Status InferDequantizeLinear(InferContext& context);
Status EvaluateDequantizeLinear(EvalContext& context);

// Input 0 as [outer, extent, inner] around the axis. Calls f(element, parameter) for each element.
class QuantizationLayout {
 public:
  // `scale` passed InferQuantization.
  static Result<QuantizationLayout> Make(const EvalContext& context, const Shape& x, const Shape& scale);

  template <typename F>
  void ForEach(F f) const {
    int64_t element = 0;
    for (int64_t o = 0; o < outer_; ++o) {
      for (int64_t a = 0; a < extent_; ++a) {
        const int64_t parameter = o * outer_step_ + a / block_ * block_step_;
        for (int64_t i = 0; i < inner_; ++i) f(element++, parameter + i * inner_step_);
      }
    }
  }

 private:
  int64_t outer_ = 1, extent_ = 1, inner_ = 1, block_ = 1;
  int64_t outer_step_ = 0, block_step_ = 0, inner_step_ = 0;
};

}  // namespace quern
