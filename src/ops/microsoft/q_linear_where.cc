// com.microsoft.QLinearWhere: of quantized tensors, x where the condition holds, else y; all three broadcast.
#include "ops/common/any_types.h"
#include "ops/common/indices.h"
#include "ops/common/infer_common.h"
#include "ops/common/q_linear.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> condition = c.input_shape(0), x = c.input_shape(1), y = c.input_shape(4);
  ValueType type = ValueType::Tensor(c.input_dtype(1));
  if (condition && x && y) {
    QUERN_ASSIGN_OR_RETURN(const Dims both, BroadcastDims(c.node(), *x, *y));
    QUERN_ASSIGN_OR_RETURN(type.shape, BroadcastDims(c.node(), *condition, both));
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const TensorQuantization of_x, ReadTensorQuantization(c, 2, 3));
  QUERN_ASSIGN_OR_RETURN(const TensorQuantization of_y, ReadTensorQuantization(c, 5, 6));
  QUERN_ASSIGN_OR_RETURN(const TensorQuantization of_z, ReadTensorQuantization(c, 7, 8));
  QUERN_ASSIGN_OR_RETURN(const Tensor z, outputs.Allocate(c, 0));
  QUERN_ASSIGN_OR_RETURN(const Tensor condition, c.input(0).Contiguous());
  const Shape& shape = outputs.shape(0);
  const auto strides_of = [&](int i) {
    const Shape& own = c.input(i).shape();
    return BroadcastStrides(own, own.ContiguousStrides(), shape);
  };
  const Shape condition_strides = strides_of(0), x_strides = strides_of(1), y_strides = strides_of(4);
  const std::vector<int32_t> x = WidenIntegers(c.input(1)), y = WidenIntegers(c.input(4));
  IndexCounter at(shape);
  for (int64_t i = 0; i < shape.num_elements(); ++i, at.Next()) {
    int64_t in_condition = 0, in_x = 0, in_y = 0;
    for (int d = 0; d < shape.rank(); ++d) {
      in_condition += at.index()[d] * condition_strides[d];
      in_x += at.index()[d] * x_strides[d];
      in_y += at.index()[d] * y_strides[d];
    }
    const double value = condition.data<bool>()[in_condition] ? of_x.ToReal(x[in_x]) : of_y.ToReal(y[in_y]);
    StoreByte(z, i, of_z.FromReal(value, z.dtype()));
  }
  return OkStatus();
}

constexpr Param kInputs[] = {{"condition", "", kBoolType},
                             {"X", "T", kByteTypes},
                             {"x_scale", "", kF32Type},
                             {"x_zero_point", "T", kByteTypes, Arity::kOptional},
                             {"Y", "T", kByteTypes},
                             {"y_scale", "", kF32Type},
                             {"y_zero_point", "T", kByteTypes, Arity::kOptional},
                             {"z_scale", "", kF32Type},
                             {"z_zero_point", "T", kByteTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"Z", "T", kByteTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftQLinearWhere = {"com.microsoft", "QLinearWhere", kVersions};

}  // namespace quern
