// DynamicQuantizeLinear: u8 quantization of a whole tensor by its own range, which includes 0.
#include <algorithm>
#include <cmath>

#include "ops/common/eval_infer.h"
#include "ops/common/integer_io.h"
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
  const std::span<const float> values = x.values<float>();
  float low = 0, high = 0;
  for (const float v : values) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  // A tensor of zeros has no range; any scale serves.
  const float scale = low == high ? 1.0f : (high - low) / 255.0f;
  const float zero = std::nearbyint(std::clamp(-low / scale, 0.0f, 255.0f));
  *y_scale.data<float>() = scale;
  *y_zero.data<uint8_t>() = static_cast<uint8_t>(zero);
  for (size_t i = 0; i < values.size(); ++i) {
    y.data<uint8_t>()[i] =
        static_cast<uint8_t>(RequantizeToByte(values[i] / scale, static_cast<int32_t>(zero), DType::kU8));
  }
  return OkStatus();
}

constexpr Param kInputs[] = {{"x", "T1", kF32Type}};
constexpr Param kOutputs[] = {
    {"y", "T2", TypeSet{DType::kU8}}, {"y_scale", "", kF32Type}, {"y_zero_point", "T2", TypeSet{DType::kU8}}};
constexpr OpVersion kVersions[] = {{11, kInputs, kOutputs, {}, Infer, Evaluate, 3}};

}  // namespace

extern constinit const OpDefinition kOpDynamicQuantizeLinear = {"", "DynamicQuantizeLinear", kVersions};

}  // namespace quern
