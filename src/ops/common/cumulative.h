// CumSum and CumProd: what an operation has gathered up to each element along an axis.
#pragma once

#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/elementwise.h"
#include "ops/common/infer_common.h"

namespace quern {

// y[j] = f(...f(f(initial, x[0]), x[1])..., x[j]), or up to x[j - 1] with `exclusive`, from the end with `reverse`.
// 16-bit floats keep float between the steps.
template <typename F>
Status EvaluateCumulative(EvalContext& c, int initial, F f) {
  const Tensor& x = c.input(0);
  const Shape& shape = x.shape();
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ReadInts(c, 1));
  if (axes.size() != 1) return c.Error("axis must be one number");
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), axes[0], shape.rank()));
  const bool exclusive = c.node().GetInt("exclusive", 0) != 0, reverse = c.node().GetInt("reverse", 0) != 0;
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, x.dtype(), shape));
  if (y.num_elements() == 0) return OkStatus();
  const int64_t n = shape[axis], outer = shape.num_elements(0, axis);
  const int64_t inner = shape.num_elements(axis + 1, shape.rank());
  return DispatchNumeric(x.dtype(), [&]<typename T>() {
    using C = ComputeType<T>;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        C gathered = static_cast<C>(initial);
        for (int64_t j = 0; j < n; ++j) {
          const int64_t at = (o * n + (reverse ? n - 1 - j : j)) * inner + i;
          const C next = f(gathered, static_cast<C>(x.data<T>()[at]));
          y.data<T>()[at] = static_cast<T>(exclusive ? gathered : next);
          gathered = next;
        }
      }
    }
    return OkStatus();
  });
}

inline constexpr TypeSet kCumulativeTypes = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16,
                                             DType::kI32, DType::kI64, DType::kU32, DType::kU64};
inline constexpr AttrSpec kCumulativeAttributes[] = {{"exclusive", AttrType::kInt, false, "0"},
                                                     {"reverse", AttrType::kInt, false, "0"}};
inline constexpr Param kCumulativeInputs[] = {{"x", "T", kCumulativeTypes}, {"axis", "T2", kIndexTypes}};
inline constexpr Param kCumulativeOutputs[] = {{"y", "T", kCumulativeTypes}};

}  // namespace quern
