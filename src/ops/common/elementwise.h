// Typed elementwise loops with broadcasting over tensors of any strides. 16-bit floats are computed in float and
// rounded once at the end.
#pragma once

#include <algorithm>
#include <array>
#include <type_traits>

#include "ops/common/dispatch.h"
#include "ops/common/eval_infer.h"
#include "ops/common/infer_common.h"
#include "ops/op.h"

namespace quern {

// Arithmetic that wraps around for integers of any width (signed overflow is undefined in C++), plain for floats.
template <typename T>
T WrappingAdd(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}
template <typename T>
T WrappingSub(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  else
    return a - b;
}
template <typename T>
T WrappingMul(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}

// The rows of N operands (2 or 3) of one broadcast shape: the last dimension is the inner loop. Dimensions that
// all operands walk densely are merged first.
template <int N>
class BroadcastRows {
 public:
  // strides[i]: those of operand i for `shape` (0 where it repeats), in elements.
  BroadcastRows(const Shape& shape, const std::array<Shape, N>& strides);

  // Calls f(offsets, row strides, length) with the offset of each operand's row, in order.
  template <typename F>
  void ForEach(F f) const {
    Place at;
    for (bool more = !empty_; more; more = Advance(at)) f(at.offset, steps_, length_);
  }

 private:
  struct Place {
    std::array<int64_t, N> offset{};
    std::array<int64_t, kMaxRank> index{};
  };
  // To the next row; whether there is one. Not a part of ForEach, which is compiled for every element type.
  bool Advance(Place& at) const;

  int outer_ = 0;  // dimensions outside of a row
  bool empty_ = false;
  int64_t length_ = 1;
  std::array<int64_t, N> steps_{};
  std::array<int64_t, kMaxRank> extents_{};
  std::array<std::array<int64_t, N>, kMaxRank> strides_{};
};

// out[...] = f(a[...]) with an output of a's shape.
template <typename Out, typename In, typename F>
void ApplyUnary(const Tensor& a, const Tensor& out, F f) {
  const BroadcastRows<2> rows(out.shape(), {out.strides(), a.strides()});
  Out* y = out.data<Out>();
  const In* x = a.data<In>();
  rows.ForEach([&](const auto& offset, const auto& stride, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      y[offset[0] + i * stride[0]] = static_cast<Out>(f(static_cast<ComputeType<In>>(x[offset[1] + i * stride[1]])));
    }
  });
}

// out[...] = f(a[...], b[...]) with a and b broadcast to out's shape.
template <typename Out, typename A, typename B, typename F>
void ApplyBinary(const Tensor& a, const Tensor& b, const Tensor& out, F f) {
  const Shape& shape = out.shape();
  const BroadcastRows<3> rows(shape, {out.strides(), BroadcastStrides(a.shape(), a.strides(), shape),
                                      BroadcastStrides(b.shape(), b.strides(), shape)});
  Out* y = out.data<Out>();
  const A* u = a.data<A>();
  const B* v = b.data<B>();
  rows.ForEach([&](const auto& offset, const auto& stride, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      y[offset[0] + i * stride[0]] = static_cast<Out>(f(static_cast<ComputeType<A>>(u[offset[1] + i * stride[1]]),
                                                        static_cast<ComputeType<B>>(v[offset[2] + i * stride[2]])));
    }
  });
}

// Whole evaluation functions: f maps compute types (ComputeType<T>) to the same. Input types outside the list are an
// error that names the node.
//
// Output 0 = f(input 0), of its type and shape.
template <typename List, typename F>
Status EvaluateUnary(EvalContext& c, List list, F f) {
  const Tensor& x = c.input_value(0).tensor();
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, x.dtype(), x.shape()));
  return DispatchType(list, x.dtype(),
                      [&]<typename T>() {
                        ApplyUnary<T, T>(x, y, f);
                        return OkStatus();
                      })
      .WithContext(c.node().Describe());
}

// Output 0 (bool) = f(input 0).
template <typename List, typename F>
Status EvaluateUnaryToBool(EvalContext& c, List list, F f) {
  const Tensor& x = c.input_value(0).tensor();
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, DType::kBool, x.shape()));
  return DispatchType(list, x.dtype(),
                      [&]<typename T>() {
                        ApplyUnary<bool, T>(x, y, f);
                        return OkStatus();
                      })
      .WithContext(c.node().Describe());
}

// The broadcast shape of all inputs, or an error that names the node.
Result<Shape> BroadcastInputs(EvalContext& c);

// Output 0 = f(input 0, input 1) broadcast, of input 0's type (both have it).
template <typename List, typename F>
Status EvaluateBinary(EvalContext& c, List list, F f) {
  const Tensor& a = c.input_value(0).tensor();
  const Tensor& b = c.input_value(1).tensor();
  QUERN_ASSIGN_OR_RETURN(const Shape shape, BroadcastInputs(c));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, a.dtype(), shape));
  return DispatchType(list, a.dtype(),
                      [&]<typename T>() {
                        ApplyBinary<T, T, T>(a, b, y, f);
                        return OkStatus();
                      })
      .WithContext(c.node().Describe());
}

// Output 0 (bool) = f(input 0, input 1) broadcast.
template <typename List, typename F>
Status EvaluateBinaryToBool(EvalContext& c, List list, F f) {
  const Tensor& a = c.input_value(0).tensor();
  const Tensor& b = c.input_value(1).tensor();
  QUERN_ASSIGN_OR_RETURN(const Shape shape, BroadcastInputs(c));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, DType::kBool, shape));
  return DispatchType(list, a.dtype(),
                      [&]<typename T>() {
                        ApplyBinary<bool, T, T>(a, b, y, f);
                        return OkStatus();
                      })
      .WithContext(c.node().Describe());
}

// Output 0 = ((input 0 f input 1) f input 2) f ..., all broadcast; one input is copied. `finish` maps each final value
// (for Mean). 16-bit floats keep float between the steps.
template <typename List, typename F, typename Finish>
Status EvaluateVariadic(EvalContext& c, List list, F f, Finish finish) {
  QUERN_ASSIGN_OR_RETURN(const Shape shape, BroadcastInputs(c));
  const DType dtype = c.input_value(0).tensor().dtype();
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, dtype, shape));
  return DispatchType(list, dtype,
                      [&]<typename T>() -> Status {
                        using C = ComputeType<T>;
                        QUERN_ASSIGN_OR_RETURN(const Tensor sum, Tensor::Allocate(DTypeOf<C>::value, shape));
                        for (int i = 0; i < c.num_inputs(); ++i) {
                          const Tensor& x = c.input_value(i).tensor();
                          if (i == 0) {
                            ApplyBinary<C, T, T>(x, x, sum, [](auto a, auto) { return a; });
                          } else {
                            ApplyBinary<C, C, T>(sum, x, sum, f);
                          }
                        }
                        ApplyUnary<T, C>(sum, y, finish);
                        return OkStatus();
                      })
      .WithContext(c.node().Describe());
}

}  // namespace quern
