// QLinearMatMul: product of quantized matrices; y = rint(sum * a_scale * b_scale / y_scale) + y_zero_point.
#include "ops/common/float_io.h"
#include "ops/common/matmul_integer.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferMatMul(c, 0, 3, c.input_dtype(7)); }

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  for (int i : {0, 3, 7}) {
    if (c.input(i).dtype() != DType::kI8 && c.input(i).dtype() != DType::kU8) {
      return Unsupported(c.node().Describe() + ": element type " + DTypeName(c.input(i).dtype()) +
                         " is not supported; i8 and u8 are");
    }
  }
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> a_scale, ReadFloats<float>(c, 1));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> b_scale, ReadFloats<float>(c, 4));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> y_scale, ReadFloats<float>(c, 6));
  QUERN_ASSIGN_OR_RETURN(const std::vector<int32_t> y_zero, ReadZeroPoints(c, 7, 1));
  const Shape &a = c.input(0).shape(), &b = c.input(3).shape();
  const int64_t rows = a.rank() == 1 ? 1 : a[a.rank() - 2], columns = b.rank() == 1 ? 1 : b.back();
  const auto fits = [](const FloatInput<float>& scale, int64_t n) {
    return scale.num_elements() == 1 || scale.num_elements() == n;
  };
  if (!fits(a_scale, rows) || !fits(b_scale, columns) || !fits(y_scale, 1)) {
    return c.Error("a_scale needs one element or one per row, b_scale one or one per column, y_scale one");
  }
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  return MultiplyIntegers(c, 0, 2, 3, 5, [&](int64_t i, int64_t j, int64_t sum) {
    const float sa = a_scale[a_scale.num_elements() == 1 ? 0 : i / columns % rows];
    const float sb = b_scale[b_scale.num_elements() == 1 ? 0 : j];
    const float value = static_cast<float>(static_cast<int32_t>(sum)) * (sa * sb / y_scale[0]);
    StoreByte(y, i, RequantizeToByte(value, y_zero[0], y.dtype()));
  });
}

constexpr Param kInputs10[] = {
    {"a", "T1", kByteTypes},   {"a_scale", "", kF32Type},         {"a_zero_point", "T1", kByteTypes},
    {"b", "T2", kByteTypes},   {"b_scale", "", kF32Type},         {"b_zero_point", "T2", kByteTypes},
    {"y_scale", "", kF32Type}, {"y_zero_point", "T3", kByteTypes}};
constexpr Param kOutputs10[] = {{"y", "T3", kByteTypes}};
constexpr TypeSet kT1Types21 =
    kByteTypes | TypeSet{DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ};
constexpr TypeSet kTSTypes21 = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs21[] = {
    {"a", "T1", kT1Types21},       {"a_scale", "TS", kTSTypes21},     {"a_zero_point", "T1", kT1Types21},
    {"b", "T2", kT1Types21},       {"b_scale", "TS", kTSTypes21},     {"b_zero_point", "T2", kT1Types21},
    {"y_scale", "TS", kTSTypes21}, {"y_zero_point", "T3", kT1Types21}};
constexpr Param kOutputs21[] = {{"y", "T3", kT1Types21}};
constexpr OpVersion kVersions[] = {{10, kInputs10, kOutputs10, {}, Infer, Evaluate},
                                   {21, kInputs21, kOutputs21, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpQLinearMatMul = {"", "QLinearMatMul", kVersions};

}  // namespace quern
