// DynamicQuantizeLinear: u8 quantization of a whole tensor by its own range, which includes 0.
#include "ops/common/dynamic_quantization.h"
#include "ops/common/eval_infer.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  c.SetOutputType(0, ValueType::Tensor(DType::kU8, c.input_shape(0)));
  c.SetOutputType(1, ValueType::Tensor(DType::kF32, Dims{}));
  c.SetOutputType(2, ValueType::Tensor(DType::kU8, Dims{}));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Tensor& x = c.input(0);
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  QUERN_ASSIGN_OR_RETURN(const Tensor y_scale, outputs.Allocate(c, 1));
  QUERN_ASSIGN_OR_RETURN(const Tensor y_zero, outputs.Allocate(c, 2));
  const DynamicQuantization quantization = QuantizationOfRange(x.values<float>());
  *y_scale.data<float>() = quantization.scale;
  *y_zero.data<uint8_t>() = quantization.zero_point;
  for (int64_t i = 0; i < x.num_elements(); ++i) y.data<uint8_t>()[i] = quantization.Quantize(x.data<float>()[i]);
  return OkStatus();
}

constexpr Param kInputs[] = {{"x", "T1", kF32Type}};
constexpr Param kOutputs[] = {
    {"y", "T2", TypeSet{DType::kU8}}, {"y_scale", "", kF32Type}, {"y_zero_point", "T2", TypeSet{DType::kU8}}};
constexpr OpVersion kVersions[] = {{11, kInputs, kOutputs, {}, Infer, Evaluate, 3}};

}  // namespace

extern constinit const OpDefinition kOpDynamicQuantizeLinear = {"", "DynamicQuantizeLinear", kVersions};

}  // namespace quern
