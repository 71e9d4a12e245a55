// DequantizeLinear: y = (x - x_zero_point) * x_scale, per tensor, per axis or per block.
#include "ops/common/float_io.h"
#include "ops/common/integer_io.h"
#include "ops/common/quantization.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const int64_t given = c.node().GetInt("output_dtype", 0);
  return InferQuantization(c, given > 0 && given < 64 ? static_cast<DType>(given) : c.input_dtype(1));
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Tensor& x = c.input(0);
  if (!IsQuantizedInteger(x.dtype())) {
    return Unsupported(c.node().Describe() + ": dequantization of " + DTypeName(x.dtype()) + " is not supported");
  }
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> scale, ReadFloats<float>(c, 1));
  QUERN_ASSIGN_OR_RETURN(const QuantizationLayout layout, QuantizationLayout::Make(c, x.shape(), scale.shape()));
  const std::vector<int32_t> values = WidenIntegers(x);
  std::vector<int32_t> zero;
  if (c.HasInput(2)) zero = WidenIntegers(c.input(2));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  layout.ForEach([&](int64_t i, int64_t p) {
    const int64_t difference = int64_t{values[i]} - (zero.empty() ? 0 : zero[p]);
    y[i] = static_cast<float>(difference) * scale[p];
  });
  y.Finish();
  return OkStatus();
}

constexpr Param kInputs10[] = {{"x", "T", kByteTypes | kI32Type},
                               {"x_scale", "", kF32Type},
                               {"x_zero_point", "T", kByteTypes | kI32Type, Arity::kOptional}};
constexpr Param kOutputs10[] = {{"y", "", kF32Type}};
constexpr AttrSpec kAttributes13[] = {{"axis", AttrType::kInt, false, "1"}};
constexpr TypeSet kT1Types19 =
    kByteTypes | TypeSet{DType::kI32, DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ};
constexpr TypeSet kT2Types19 = {DType::kF32, DType::kF16, DType::kBF16};
constexpr Param kInputs19[] = {
    {"x", "T1", kT1Types19}, {"x_scale", "T2", kT2Types19}, {"x_zero_point", "T1", kT1Types19, Arity::kOptional}};
constexpr Param kOutputs19[] = {{"y", "T2", kT2Types19}};
constexpr TypeSet kT1Types21 =
    kByteTypes | TypeSet{DType::kI16,    DType::kI32,        DType::kU16, DType::kF8E4M3FN, DType::kF8E4M3FNUZ,
                         DType::kF8E5M2, DType::kF8E5M2FNUZ, DType::kU4,  DType::kI4};
constexpr Param kInputs21[] = {
    {"x", "T1", kT1Types21}, {"x_scale", "T2", kT2Types19}, {"x_zero_point", "T1", kT1Types21, Arity::kOptional}};
constexpr AttrSpec kAttributes21[] = {{"axis", AttrType::kInt, false, "1"}, {"block_size", AttrType::kInt, false, "0"}};
constexpr TypeSet kT1Types23 =
    kByteTypes | TypeSet{DType::kI16,    DType::kI32,        DType::kU16,    DType::kF8E4M3FN, DType::kF8E4M3FNUZ,
                         DType::kF8E5M2, DType::kF8E5M2FNUZ, DType::kF4E2M1, DType::kU4,       DType::kI4};
constexpr Param kInputs23[] = {
    {"x", "T1", kT1Types23}, {"x_scale", "T2", kT2Types19}, {"x_zero_point", "T1", kT1Types23, Arity::kOptional}};
constexpr Param kOutputs23[] = {{"y", "T3", kT2Types19}};
constexpr AttrSpec kAttributes23[] = {{"axis", AttrType::kInt, false, "1"},
                                      {"block_size", AttrType::kInt, false, "0"},
                                      {"output_dtype", AttrType::kInt, false, "0"}};
constexpr TypeSet kT2Types24 = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E8M0};
constexpr Param kInputs24[] = {
    {"x", "T1", kT1Types23}, {"x_scale", "T2", kT2Types24}, {"x_zero_point", "T1", kT1Types23, Arity::kOptional}};
constexpr TypeSet kT1Types25 =
    kByteTypes | TypeSet{DType::kI16,        DType::kI32,    DType::kU16,        DType::kF8E4M3FN,
                         DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ, DType::kF4E2M1,
                         DType::kU4,         DType::kI4,     DType::kU2,         DType::kI2};
constexpr Param kInputs25[] = {
    {"x", "T1", kT1Types25}, {"x_scale", "T2", kT2Types24}, {"x_zero_point", "T1", kT1Types25, Arity::kOptional}};
constexpr OpVersion kVersions[] = {{10, kInputs10, kOutputs10, {}, Infer, Evaluate},
                                   {13, kInputs10, kOutputs10, kAttributes13, Infer, Evaluate},
                                   {19, kInputs19, kOutputs19, kAttributes13, Infer, Evaluate},
                                   {21, kInputs21, kOutputs19, kAttributes21, Infer, Evaluate},
                                   {23, kInputs23, kOutputs23, kAttributes23, Infer, Evaluate},
                                   {24, kInputs24, kOutputs23, kAttributes23, Infer, Evaluate},
                                   {25, kInputs25, kOutputs23, kAttributes23, Infer, Evaluate},
                                   {28, kInputs25, kOutputs23, kAttributes23, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpDequantizeLinear = {"", "DequantizeLinear", kVersions};

}  // namespace quern
