// EyeLike: a matrix of the input's shape with ones on diagonal k and zeros elsewhere.
#include <algorithm>

#include "ops/common/dispatch.h"
#include "ops/common/dtype_attribute.h"
#include "ops/common/eval_infer.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

constexpr TypeSet kTypes9 = kOldNumericTypes | TypeSet{DType::kBool};
constexpr TypeSet kTypes22 = kNumericTypes | TypeSet{DType::kBool};

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const DType dtype, ReadDTypeAttribute(c.node(), "dtype", c.input_dtype(0),
                                                               c.node().opset() < 22 ? kTypes9 : kTypes22));
  const std::optional<Dims> shape = c.input_shape(0);
  if (shape && shape->size() != 2) {
    return c.Error("input '" + c.node().input(0)->name() + "' has shape " + DimsToString(*shape) +
                   "; a matrix is needed");
  }
  c.SetOutputType(0, ValueType::Tensor(dtype, shape ? *shape : Dims{Dim::Unknown(), Dim::Unknown()}));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  if (y.num_elements() == 0) return OkStatus();
  const int64_t rows = y.dim(0), columns = y.dim(1), k = c.node().GetInt("k", 0);
  using List = Types<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                     uint64_t, bool>;
  return DispatchType(List{}, y.dtype(), [&]<typename T>() {
    std::fill_n(y.data<T>(), y.num_elements(), static_cast<T>(ComputeType<T>{0}));
    for (int64_t row = 0; row < rows; ++row) {
      if (k >= -row && k < columns - row) y.data<T>()[row * columns + row + k] = static_cast<T>(ComputeType<T>{1});
    }
    return OkStatus();
  });
}

constexpr AttrSpec kAttributes[] = {{"dtype", AttrType::kInt}, {"k", AttrType::kInt, false, "0"}};
constexpr Param kInputs9[] = {{"input", "T1", kTypes9}}, kOutputs9[] = {{"output", "T2", kTypes9}};
constexpr Param kInputs22[] = {{"input", "T1", kTypes22}}, kOutputs22[] = {{"output", "T2", kTypes22}};
constexpr OpVersion kVersions[] = {{9, kInputs9, kOutputs9, kAttributes, Infer, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpEyeLike = {"", "EyeLike", kVersions};

}  // namespace quern
