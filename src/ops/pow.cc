// Pow: x to the power of y, broadcast; the result has the type of x. Integer powers of integers are exact modulo 2^n.
#include <cmath>
#include <limits>

#include "ops/common/integer_power.h"
#include "ops/common/legacy_broadcast.h"
#include "ops/common/saturate.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

// The exponents as int64 (integers) or double.
Result<Tensor> WidenExponents(const Tensor& y) {
  const bool is_float = IsFloatType(y.dtype());
  QUERN_ASSIGN_OR_RETURN(const Tensor wide, Tensor::Allocate(is_float ? DType::kF64 : DType::kI64, y.shape()));
  QUERN_RETURN_IF_ERROR(DispatchNumeric(y.dtype(), [&]<typename T>() {
    if constexpr (std::is_integral_v<T>) {
      // The exponents of uint64 above int64 keep their parity and are as good as infinite.
      ApplyUnary<int64_t, T>(y, wide, [](T v) {
        return std::is_same_v<T, uint64_t> && v > T{0} && static_cast<int64_t>(v) < 0
                   ? std::numeric_limits<int64_t>::max() - static_cast<int64_t>(1 - (v & T{1}))
                   : static_cast<int64_t>(v);
      });
    } else {
      ApplyUnary<double, T>(y, wide, [](auto v) { return static_cast<double>(v); });
    }
    return OkStatus();
  }));
  return wide;
}

Status Power(EvalContext& c, const Tensor& x, const Tensor& exponents, const Shape& shape) {
  QUERN_ASSIGN_OR_RETURN(const Tensor y, WidenExponents(exponents));
  QUERN_ASSIGN_OR_RETURN(const Tensor out, c.AllocateOutput(0, x.dtype(), shape));
  bool by_zero = false;
  const Status status =
      DispatchType(Types<float, double, Float16, BFloat16, int32_t, int64_t>{}, x.dtype(), [&]<typename T>() {
        const auto apply = [&]<typename Y>(Y) {
          ApplyBinary<T, T, Y>(x, y, out, [&](auto a, Y b) {
            using A = decltype(a);
            if constexpr (std::is_integral_v<A> && std::is_integral_v<Y>) {
              return IntegerPower<A>(a, b, by_zero);
            } else {
              const double power = std::pow(static_cast<double>(a), static_cast<double>(b));
              if constexpr (std::is_integral_v<A>) {
                return SaturateTo<A>(power);
              } else {
                return static_cast<A>(power);
              }
            }
          });
        };
        if (y.dtype() == DType::kI64) {
          apply(int64_t{});
        } else {
          apply(double{});
        }
        return OkStatus();
      });
  if (!status.ok()) return status.WithContext(c.node().Describe());
  return by_zero ? c.Error("negative power of integer zero") : OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Shape shape, BroadcastInputs(c));
  return Power(c, c.input_value(0).tensor(), c.input_value(1).tensor(), shape);
}

Status Evaluate1(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Tensor y, LegacyBroadcastInput(c));
  const Tensor& x = c.input_value(0).tensor();
  return Power(c, x, y, x.shape());
}

constexpr Param kInputs1[] = {{"X", "T", kOldFloatTypes}, {"Y", "T", kOldFloatTypes}};
constexpr Param kOutputs1[] = {{"Z", "T", kOldFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt}, {"broadcast", AttrType::kInt, false, "0"}};
constexpr TypeSet kTTypes12 = kOldFloatTypes | TypeSet{DType::kI32, DType::kI64};
constexpr Param kInputs12[] = {{"X", "T", kTTypes12}, {"Y", "T1", kOldNumericTypes}};
constexpr Param kOutputs12[] = {{"Z", "T", kTTypes12}};
constexpr TypeSet kTTypes13 = kFloatTypes | TypeSet{DType::kI32, DType::kI64};
constexpr Param kInputs13[] = {{"X", "T", kTTypes13}, {"Y", "T1", kOldNumericTypes}};
constexpr Param kOutputs13[] = {{"Z", "T", kTTypes13}};
constexpr Param kInputs15[] = {{"X", "T", kTTypes13}, {"Y", "T1", kNumericTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes, InferLegacyBroadcast, Evaluate1},
                                   {7, kInputs1, kOutputs1, {}, InferBroadcast, Evaluate},
                                   {12, kInputs12, kOutputs12, {}, InferBroadcast, Evaluate},
                                   {13, kInputs13, kOutputs13, {}, InferBroadcast, Evaluate},
                                   {15, kInputs15, kOutputs13, {}, InferBroadcast, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpPow = {"", "Pow", kVersions};

}  // namespace quern
