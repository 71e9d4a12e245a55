// com.microsoft.DynamicQuantizeMatMul: A, quantized to u8 by the range of the whole tensor, times a quantized B.
#include "ops/common/dynamic_quantization.h"
#include "ops/common/matmul_scaled.h"

namespace quern {
namespace {

enum Input { kA, kB, kBScale, kBZeroPoint, kBias };

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(InferMatMul(c, kA, kB, c.input_dtype(kA)));
  QUERN_RETURN_IF_ERROR(CheckColumns(c, kBScale, c.input_shape(kB), true));
  if (c.HasInput(kBias)) QUERN_RETURN_IF_ERROR(CheckColumns(c, kBias, c.input_shape(kB), false));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const std::span<const float> a = c.input(kA).values<float>();
  const DynamicQuantization quantization = QuantizationOfRange(a);
  std::vector<int32_t> left(a.size());
  for (size_t i = 0; i < a.size(); ++i) left[i] = quantization.Quantize(a[i]) - quantization.zero_point;
  const MatMulLoops loops = MakeMatMulLoops(c.input(kA).shape(), c.input(kB).shape());
  QUERN_ASSIGN_OR_RETURN(const std::vector<int32_t> right, ReadRightSide(c, kB, kBZeroPoint, loops));
  QUERN_ASSIGN_OR_RETURN(const ColumnScales scales,
                         ColumnScales::Make(c, static_cast<double>(quantization.scale), kBScale, kBias));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  float* out = y.data<float>();
  MultiplySides(loops, left, right,
                [&](int64_t i, int64_t column, int64_t sum) { out[i] = static_cast<float>(scales.At(sum, column)); });
  return OkStatus();
}

constexpr Param kInputs[] = {{"A", "T1", kF32Type},
                             {"B", "T2", kByteTypes},
                             {"b_scale", "T1", kF32Type},
                             {"b_zero_point", "T2", kByteTypes, Arity::kOptional},
                             {"bias", "T1", kF32Type, Arity::kOptional}};
constexpr Param kOutputs[] = {{"Y", "T1", kF32Type}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftDynamicQuantizeMatMul = {"com.microsoft", "DynamicQuantizeMatMul",
                                                                         kVersions};

}  // namespace quern
