// Softmax, LogSoftmax and Hardmax along one axis, or (before operator set 13) over all dimensions from the axis on.
#pragma once

#include "ops/common/float_io.h"
#include "ops/common/infer_common.h"

namespace quern {

// Output 0 has the type of input 0; checks the axis.
Status InferSoftmax(InferContext& context);

// Input 0 seen as [outer, count, inner]: the function runs over `count` elements that are `inner` apart.
struct SoftmaxLoops {
  int64_t outer, count, inner;
};
Result<SoftmaxLoops> MakeSoftmaxLoops(const EvalContext& context, const Shape& shape);

// Calls f(x, y, count, stride) for every line of the input and of the output, typed float or double.
template <typename F>
Status EvaluateSoftmax(EvalContext& c, F f) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, InferSoftmax));
  QUERN_ASSIGN_OR_RETURN(const SoftmaxLoops loops, MakeSoftmaxLoops(c, outputs.shape(0)));
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    for (int64_t o = 0; loops.count > 0 && o < loops.outer; ++o) {
      for (int64_t i = 0; i < loops.inner; ++i) {
        const int64_t at = o * loops.count * loops.inner + i;
        f(x.data() + at, y.data() + at, loops.count, loops.inner);
      }
    }
    y.Finish();
    return OkStatus();
  });
}

// The largest of `count` elements.
template <typename T>
double LargestOf(const T* x, int64_t count, int64_t stride) {
  double largest = static_cast<double>(x[0]);
  for (int64_t i = 1; i < count; ++i) largest = std::max(largest, static_cast<double>(x[i * stride]));
  return largest;
}

}  // namespace quern
