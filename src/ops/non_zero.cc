// NonZero: the indices of all elements that are not zero, one column each: [rank, count].
#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/indices.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> shape = c.input_shape(0);
  const Dim rank = shape ? Dim(static_cast<int64_t>(shape->size())) : Dim::Unknown();
  c.SetOutputType(0, ValueType::Tensor(DType::kI64, Dims{rank, Dim::Unknown()}));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  const Value& value = c.input_value(0);
  const Shape shape = ShapeOf(value);
  const int64_t n = shape.num_elements();
  std::vector<bool> set(static_cast<size_t>(n), false);
  if (value.kind() == ValueKind::kStringTensor) {
    for (int64_t i = 0; i < n; ++i) set[i] = !value.strings().values[i].empty();
  } else {
    const Tensor& t = c.input(0);
    const bool complex = t.dtype() == DType::kC64 || t.dtype() == DType::kC128;
    using List = Types<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                       uint64_t, bool>;
    const DType part = t.dtype() == DType::kC64 ? DType::kF32 : complex ? DType::kF64 : t.dtype();
    const Status status = DispatchType(List{}, part, [&]<typename T>() {
      const T* x = static_cast<const T*>(t.raw_data());
      const auto is_set = [x](int64_t i) { return static_cast<ComputeType<T>>(x[i]) != ComputeType<T>{}; };
      for (int64_t i = 0; i < n; ++i) set[i] = complex ? is_set(2 * i) || is_set(2 * i + 1) : is_set(i);
      return OkStatus();
    });
    if (!status.ok()) return status.WithContext(c.node().Describe());
  }
  int64_t count = 0;
  for (bool b : set) count += b;
  QUERN_ASSIGN_OR_RETURN(const Tensor out, c.AllocateOutput(0, DType::kI64, Shape{shape.rank(), count}));
  int64_t* y = out.data<int64_t>();
  IndexCounter at(shape);
  for (int64_t i = 0, column = 0; i < n; ++i, at.Next()) {
    if (!set[i]) continue;
    for (int d = 0; d < shape.rank(); ++d) y[d * count + column] = at.index()[d];
    ++column;
  }
  return OkStatus();
}

constexpr Param kOutputs[] = {{"Y", "", kInt64Type}};
constexpr OpVersion kVersions[] = {{9, kDataOfAnyType<9>, kOutputs, {}, Infer, Evaluate},
                                   {13, kDataOfAnyType<13>, kOutputs, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpNonZero = {"", "NonZero", kVersions};

}  // namespace quern
