// com.microsoft.MatMulIntegerToFloat: product of quantized matrices as floats, with a bias per column.
#include "ops/common/matmul_scaled.h"

namespace quern {
namespace {

enum Input { kA, kB, kAScale, kBScale, kAZeroPoint, kBZeroPoint, kBias };

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(InferMatMul(c, kA, kB, c.input_dtype(kAScale)));
  QUERN_RETURN_IF_ERROR(CheckColumns(c, kBScale, c.input_shape(kB), true));
  if (c.HasInput(kBias)) QUERN_RETURN_IF_ERROR(CheckColumns(c, kBias, c.input_shape(kB), false));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> a_scale, ReadFloats<float>(c, kAScale));
  if (a_scale.num_elements() != 1) {
    return c.Error("a_scale has " + std::to_string(a_scale.num_elements()) + " elements, 1 is needed");
  }
  QUERN_ASSIGN_OR_RETURN(const ColumnScales scales, ColumnScales::Make(c, a_scale[0], kBScale, kBias));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  QUERN_RETURN_IF_ERROR(MultiplyIntegers(
      c, kA, kAZeroPoint, kB, kBZeroPoint,
      [&](int64_t i, int64_t column, int64_t sum) { y[i] = static_cast<float>(scales.At(sum, column)); }));
  y.Finish();
  return OkStatus();
}

constexpr TypeSet kFloats = {DType::kF32, DType::kF16};
constexpr Param kInputs[] = {{"A", "T1", kByteTypes},
                             {"B", "T2", kByteTypes},
                             {"a_scale", "T3", kFloats},
                             {"b_scale", "T3", kFloats},
                             {"a_zero_point", "T1", kByteTypes, Arity::kOptional},
                             {"b_zero_point", "T2", kByteTypes, Arity::kOptional},
                             {"bias", "T3", kFloats, Arity::kOptional}};
constexpr Param kOutputs[] = {{"Y", "T3", kFloats}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftMatMulIntegerToFloat = {"com.microsoft", "MatMulIntegerToFloat",
                                                                        kVersions};

}  // namespace quern
