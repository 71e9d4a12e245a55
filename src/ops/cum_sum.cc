// CumSum: running sums along an axis.
#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/elementwise.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const Tensor& x = c.input(0);
  const Shape& shape = x.shape();
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ReadInts(c, 1));
  if (axes.size() != 1) return c.Error("axis must be one number");
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), axes[0], shape.rank()));
  const bool exclusive = c.node().GetInt("exclusive", 0) != 0, reverse = c.node().GetInt("reverse", 0) != 0;
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, x.dtype(), shape));
  const int64_t n = shape[axis], outer = shape.num_elements(0, axis);
  const int64_t inner = shape.num_elements(axis + 1, shape.rank());
  return DispatchNumeric(x.dtype(), [&]<typename T>() {
    using C = ComputeType<T>;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        C sum{};
        for (int64_t j = 0; j < n; ++j) {
          const int64_t at = (o * n + (reverse ? n - 1 - j : j)) * inner + i;
          const C next = WrappingAdd(sum, static_cast<C>(x.data<T>()[at]));
          y.data<T>()[at] = static_cast<T>(exclusive ? sum : next);
          sum = next;
        }
      }
    }
    return OkStatus();
  });
}

constexpr TypeSet kTypes11 = {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kU32, DType::kU64};
constexpr TypeSet kTypes14 = kTypes11 | TypeSet{DType::kF16, DType::kBF16};
constexpr AttrSpec kAttributes[] = {{"exclusive", AttrType::kInt, false, "0"}, {"reverse", AttrType::kInt, false, "0"}};
constexpr Param kInputs11[] = {{"x", "T", kTypes11}, {"axis", "T2", kIndexTypes}},
                kOutputs11[] = {{"y", "T", kTypes11}};
constexpr Param kInputs14[] = {{"x", "T", kTypes14}, {"axis", "T2", kIndexTypes}},
                kOutputs14[] = {{"y", "T", kTypes14}};
constexpr OpVersion kVersions[] = {{11, kInputs11, kOutputs11, kAttributes, InferUnary, Evaluate},
                                   {14, kInputs14, kOutputs14, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpCumSum = {"", "CumSum", kVersions};

}  // namespace quern
