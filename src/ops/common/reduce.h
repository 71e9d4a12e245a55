// What the Reduce operators share: axes, shapes, propagation of small contents, and typed reduction loops.
#pragma once

#include <vector>

#include "ops/common/elementwise.h"
#include "ops/common/saturate.h"

namespace quern {

// Output 0 is input 0 without the reduced dimensions (or with extents of 1 there, 'keepdims').
Status InferReduce(InferContext& context);

// Sets the content of output 0 to the fold of a propagated input, when all of it is reduced.
template <typename F>
Status InferReduceWith(InferContext& c, Dim first, F f) {
  QUERN_RETURN_IF_ERROR(InferReduce(c));
  const std::optional<Dims> data = PropagatedInput(c, 0);
  const bool reduces_all = !c.HasInput(1) && c.node().GetInts("axes").empty()
                               ? c.node().GetInt("noop_with_empty_axes", 0) == 0
                               : ConstantInts(c, 1).value_or(c.node().GetInts("axes")).size() == 1;
  if (!data || !reduces_all) return OkStatus();
  for (const Dim& d : *data) first = f(first, d);
  c.SetOutputData(0, {first});
  return OkStatus();
}

// A reduction of actual inputs.
struct ReducePlan {
  Shape output_strides;  // per input dimension; 0 where it is reduced
  int64_t outputs;       // elements of the result
  int64_t count;         // elements that each of them is made of
};
Result<ReducePlan> MakeReducePlan(EvalContext& context, const Shape& output);

// sums[o] = step(sums[o], x) for every element x of the input, in order.
template <typename T, typename Acc, typename Step>
void ReduceLoop(const Tensor& x, const ReducePlan& plan, std::vector<Acc>& sums, Step step) {
  const BroadcastRows<2> rows(x.shape(), {plan.output_strides, x.strides()});
  const T* in = x.data<T>();
  rows.ForEach([&](const auto& offset, const auto& stride, int64_t n) {
    const T* from = in + offset[1];
    Acc* to = sums.data() + offset[0];
    if (stride[0] == 0) {
      Acc sum = *to;
      for (int64_t i = 0; i < n; ++i) sum = step(sum, static_cast<ComputeType<T>>(from[i * stride[1]]));
      *to = sum;
    } else {
      for (int64_t i = 0; i < n; ++i) {
        to[i * stride[0]] = step(to[i * stride[0]], static_cast<ComputeType<T>>(from[i * stride[1]]));
      }
    }
  });
}

// Output 0 from Acc<T> accumulators that start at first<Acc>(), take step(acc, element) and end as
// finish(acc, count). AccOf maps an element type to its accumulator's.
template <template <typename> typename AccOf, typename List, typename First, typename Step, typename Finish>
Status EvaluateReduce(EvalContext& c, List list, First first, Step step, Finish finish) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, InferReduce));
  QUERN_ASSIGN_OR_RETURN(const ReducePlan plan, MakeReducePlan(c, outputs.shape(0)));
  const Tensor& x = c.input_value(0).tensor();
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  return DispatchType(list, x.dtype(),
                      [&]<typename T>() -> Status {
                        using Acc = typename AccOf<ComputeType<T>>::Type;
                        std::vector<Acc> sums(static_cast<size_t>(plan.outputs), first(Acc{}));
                        ReduceLoop<T>(x, plan, sums,
                                      [&](Acc acc, ComputeType<T> v) { return step(acc, static_cast<Acc>(v)); });
                        T* out = y.data<T>();
                        for (int64_t i = 0; i < plan.outputs; ++i) {
                          const auto value = finish(sums[i], plan.count);
                          if constexpr (std::is_integral_v<T> && std::is_floating_point_v<decltype(value)>) {
                            out[i] = SaturateTo<T>(value);
                          } else {
                            out[i] = static_cast<T>(value);
                          }
                        }
                        return OkStatus();
                      })
      .WithContext(c.node().Describe());
}

// Accumulators: double for floats and wrapping 64-bit for integers; double for all; the element's own type (a byte for
// bool).
template <typename T>
struct WideAcc {
  using Type = std::conditional_t<std::is_floating_point_v<T>, double,
                                  std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
};
template <typename T>
struct DoubleAcc {
  using Type = double;
};
template <typename T>
struct SameAcc {
  using Type = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
};
using ReduceTypeList = Types<float, double, Float16, BFloat16, int32_t, int64_t, uint32_t, uint64_t>;

}  // namespace quern
