// Broadcasting of operator sets before 7: the second input is aligned with the first by attributes, or not at all.
#pragma once

#include "ops/common/elementwise.h"

namespace quern {

// Output 0 is of input 0's type; an error when input 1 does not fit it by the attributes `broadcast` and `axis`.
Status InferLegacyBroadcast(InferContext& context);
// Input 1 with a shape to which the numpy rules give the meaning of `broadcast` and `axis`.
Result<Tensor> LegacyBroadcastInput(EvalContext& context);

// EvaluateBinary by the old rules.
template <typename List, typename F>
Status EvaluateLegacyBinary(EvalContext& c, List list, F f) {
  const Tensor& a = c.input_value(0).tensor();
  QUERN_ASSIGN_OR_RETURN(const Tensor b, LegacyBroadcastInput(c));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, a.dtype(), a.shape()));
  return DispatchType(list, a.dtype(),
                      [&]<typename T>() {
                        ApplyBinary<T, T, T>(a, b, y, f);
                        return OkStatus();
                      })
      .WithContext(c.node().Describe());
}

}  // namespace quern
