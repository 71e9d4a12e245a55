// Range: start, start + delta, ... before limit.
#include <cmath>

#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

// The scalar content of an input as double, for float types.
std::optional<double> FloatOf(const Value* value) {
  if (value == nullptr || !value->is_tensor() || value->tensor().num_elements() != 1) return std::nullopt;
  std::optional<double> result;
  const Status status = DispatchFloat(value->tensor().dtype(), [&]<typename T>() {
    result = static_cast<double>(static_cast<ComputeType<T>>(*value->tensor().data<T>()));
    return OkStatus();
  });
  return status.ok() ? result : std::nullopt;
}

// The number of elements, or nothing when it is not finite, delta is 0, or it exceeds what any tensor could hold.
std::optional<int64_t> FloatCount(double start, double limit, double delta) {
  const double n = std::ceil((limit - start) / delta);
  if (delta == 0 || !(n < 4e18)) return std::nullopt;
  return n > 0 ? static_cast<int64_t>(n) : 0;
}
std::optional<int64_t> IntCount(int64_t start, int64_t limit, int64_t delta) {
  if (delta == 0) return std::nullopt;
  if (delta > 0 ? start >= limit : start <= limit) return 0;
  const uint64_t span = delta > 0 ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                                  : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
  const uint64_t step = delta > 0 ? static_cast<uint64_t>(delta) : ~static_cast<uint64_t>(delta) + 1;
  const uint64_t count = (span - 1) / step + 1;
  return count >> 62 ? std::nullopt : std::optional<int64_t>(static_cast<int64_t>(count));
}

Status Infer(InferContext& c) {
  const DType dtype = c.input_dtype(0);
  ValueType type = ValueType::Tensor(dtype, Dims{Dim::Unknown()});
  if (IsFloatType(dtype)) {
    const auto start = FloatOf(c.input_constant(0)), limit = FloatOf(c.input_constant(1));
    const auto delta = FloatOf(c.input_constant(2));
    if (start && limit && delta) {
      const std::optional<int64_t> n = FloatCount(*start, *limit, *delta);
      if (!n) return c.Error("the number of elements is not finite");
      type.shape->front() = Dim(*n);
    }
    c.SetOutputType(0, std::move(type));
    return OkStatus();
  }
  const std::optional<Dims> start = c.input_data(0), limit = c.input_data(1), delta = c.input_data(2);
  if (!start || !limit || !delta || start->size() != 1 || limit->size() != 1 || delta->size() != 1 ||
      !delta->front().is_constant()) {
    c.SetOutputType(0, std::move(type));
    return OkStatus();
  }
  const Dim &s = start->front(), &l = limit->front();
  const int64_t step = delta->front().value();
  if (s.is_constant() && l.is_constant()) {
    const std::optional<int64_t> n = IntCount(s.value(), l.value(), step);
    if (!n) return c.Error("the number of elements is not finite");
    type.shape->front() = Dim(*n);
    c.SetOutputType(0, std::move(type));
    if (*n <= kMaxPropagatedElements) {
      Dims content;
      for (int64_t i = 0; i < *n; ++i) content.push_back(Dim(s.value() + i * step));
      c.SetOutputData(0, std::move(content));
    }
    return OkStatus();
  }
  if (step > 0) {
    // A lone symbol is an extent, never negative.
    const bool extent = s.is_constant(0) && step == 1 && !l.symbol().empty() && !l.has_unknown();
    type.shape->front() = extent ? l : Dim::Max(Dim::CeilDiv(l - s, Dim(step)), Dim(0));
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  for (int i = 0; i < 3; ++i) {
    if (c.input(i).num_elements() != 1) return c.Error("start, limit and delta must be scalars");
  }
  const DType dtype = c.input(0).dtype();
  using List = Types<float, double, Float16, BFloat16, int16_t, int32_t, int64_t>;
  return DispatchType(List{}, dtype, [&]<typename T>() -> Status {
    using C = ComputeType<T>;
    const C start = static_cast<C>(*c.input(0).data<T>()), delta = static_cast<C>(*c.input(2).data<T>());
    const C limit = static_cast<C>(*c.input(1).data<T>());
    std::optional<int64_t> n;
    if constexpr (std::is_floating_point_v<C>) {
      n = FloatCount(start, limit, delta);
    } else {
      n = IntCount(start, limit, delta);
    }
    if (!n) return c.Error("the number of elements is not finite");
    QUERN_ASSIGN_OR_RETURN(const Tensor out, c.AllocateOutput(0, dtype, Shape{*n}));
    T* y = out.data<T>();
    for (int64_t i = 0; i < *n; ++i) y[i] = static_cast<T>(static_cast<C>(start + static_cast<C>(i) * delta));
    return OkStatus();
  });
}

constexpr TypeSet kTypes11 = {DType::kF32, DType::kF64, DType::kI16, DType::kI32, DType::kI64};
constexpr TypeSet kTypes27 = kTypes11 | TypeSet{DType::kF16, DType::kBF16};
constexpr Param kInputs11[] = {{"start", "T", kTypes11}, {"limit", "T", kTypes11}, {"delta", "T", kTypes11}};
constexpr Param kOutputs11[] = {{"output", "T", kTypes11}};
constexpr Param kInputs27[] = {{"start", "T", kTypes27}, {"limit", "T", kTypes27}, {"delta", "T", kTypes27}};
constexpr Param kOutputs27[] = {{"output", "T", kTypes27}};
constexpr AttrSpec kAttributes27[] = {{"stash_type", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{11, kInputs11, kOutputs11, {}, Infer, Evaluate},
                                   {27, kInputs27, kOutputs27, kAttributes27, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpRange = {"", "Range", kVersions};

}  // namespace quern
