#include "ops/common/q_linear.h"

#include "ops/common/elementwise.h"
#include "ops/common/infer_common.h"

namespace quern {

Status InferQLinearBinary(InferContext& c) {
  const std::optional<Dims> a = c.input_shape(0), b = c.input_shape(3);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (a && b) {
    QUERN_ASSIGN_OR_RETURN(type.shape, BroadcastDims(c.node(), *a, *b));
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status EvaluateQLinearBinary(EvalContext& c, double (*f)(double a, double b)) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, InferQLinearBinary));
  QUERN_ASSIGN_OR_RETURN(const TensorQuantization of_a, ReadTensorQuantization(c, 1, 2));
  QUERN_ASSIGN_OR_RETURN(const TensorQuantization of_b, ReadTensorQuantization(c, 4, 5));
  QUERN_ASSIGN_OR_RETURN(const TensorQuantization of_y, ReadTensorQuantization(c, 6, 7));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  return DispatchType(Types<int8_t, uint8_t>{}, y.dtype(), [&]<typename T>() {
    ApplyBinary<T, T, T>(c.input(0), c.input(3), y, [&](T a, T b) {
      return static_cast<T>(of_y.FromReal(f(of_a.ToReal(a), of_b.ToReal(b)), y.dtype()));
    });
    return OkStatus();
  });
}

}  // namespace quern
