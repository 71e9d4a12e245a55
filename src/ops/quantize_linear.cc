// QuantizeLinear: y = saturate(rint(x / y_scale) + y_zero_point), per tensor, per axis or per block.
#include <cmath>

#include "ops/common/float_io.h"
#include "ops/common/integer_io.h"
#include "ops/common/quantization.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

// The type of the zero point, else attribute output_dtype, else u8.
DType OutputType(const Node& node, bool has_zero_point, DType zero_point) {
  if (has_zero_point) return zero_point;
  const int64_t given = node.GetInt("output_dtype", 0);
  return given > 0 && given < 64 ? static_cast<DType>(given) : DType::kU8;
}

Status Infer(InferContext& c) {
  return InferQuantization(c, OutputType(c.node(), c.HasInput(2), c.HasInput(2) ? c.input_dtype(2) : DType::kU8));
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const DType type = outputs.dtype(0);
  if (!IsQuantizedInteger(type)) {
    return Unsupported(c.node().Describe() + ": quantization to " + DTypeName(type) + " is not supported");
  }
  QUERN_ASSIGN_OR_RETURN(const FloatInput<float> scale, ReadFloats<float>(c, 1));
  FloatInput<float> x;
  std::vector<float> converted;
  const Tensor& in = c.input(0);
  const float* values = nullptr;
  if (in.dtype() == DType::kI32) {
    converted.assign(in.data<int32_t>(), in.data<int32_t>() + in.num_elements());
    values = converted.data();
  } else {
    QUERN_ASSIGN_OR_RETURN(x, ReadFloats<float>(c, 0));
    values = x.data();
  }
  std::vector<int32_t> zero;
  if (c.HasInput(2)) zero = WidenIntegers(c.input(2));
  QUERN_ASSIGN_OR_RETURN(const QuantizationLayout layout, QuantizationLayout::Make(c, in.shape(), scale.shape()));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  const IntegerRange range = RangeOf(type);
  std::vector<int32_t> quantized(static_cast<size_t>(in.num_elements()));
  layout.ForEach([&](int64_t i, int64_t p) {
    const double rounded = static_cast<double>(std::nearbyint(values[i] / scale[p]));
    const double shifted = rounded + (zero.empty() ? 0 : zero[p]);
    const double low = static_cast<double>(range.low), high = static_cast<double>(range.high);
    quantized[i] = static_cast<int32_t>(shifted > low ? std::min(shifted, high) : low);  // a NaN becomes the lowest
  });
  NarrowIntegers(quantized, y);
  return OkStatus();
}

constexpr Param kInputs10[] = {{"x", "T1", TypeSet{DType::kF32, DType::kI32}},
                               {"y_scale", "", kF32Type},
                               {"y_zero_point", "T2", kByteTypes, Arity::kOptional}};
constexpr Param kOutputs10[] = {{"y", "T2", kByteTypes}};
constexpr AttrSpec kAttributes13[] = {{"axis", AttrType::kInt, false, "1"}};
constexpr TypeSet kT1Types19 = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32};
constexpr TypeSet kT2Types19 =
    kByteTypes | TypeSet{DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ};
constexpr Param kInputs19[] = {
    {"x", "T1", kT1Types19}, {"y_scale", "T1", kT1Types19}, {"y_zero_point", "T2", kT2Types19, Arity::kOptional}};
constexpr Param kOutputs19[] = {{"y", "T2", kT2Types19}};
constexpr AttrSpec kAttributes19[] = {{"axis", AttrType::kInt, false, "1"}, {"saturate", AttrType::kInt, false, "1"}};
constexpr TypeSet kT2Types21 =
    kByteTypes | TypeSet{DType::kI16,    DType::kU16,        DType::kF8E4M3FN, DType::kF8E4M3FNUZ,
                         DType::kF8E5M2, DType::kF8E5M2FNUZ, DType::kU4,       DType::kI4};
constexpr Param kInputs21[] = {
    {"x", "T1", kT1Types19}, {"y_scale", "T1", kT1Types19}, {"y_zero_point", "T2", kT2Types21, Arity::kOptional}};
constexpr Param kOutputs21[] = {{"y", "T2", kT2Types21}};
constexpr AttrSpec kAttributes21[] = {{"axis", AttrType::kInt, false, "1"},
                                      {"block_size", AttrType::kInt, false, "0"},
                                      {"output_dtype", AttrType::kInt, false, "0"},
                                      {"saturate", AttrType::kInt, false, "1"}};
constexpr TypeSet kT3Types23 =
    kByteTypes | TypeSet{DType::kI16,        DType::kU16,    DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2,
                         DType::kF8E5M2FNUZ, DType::kF4E2M1, DType::kU4,       DType::kI4};
constexpr Param kInputs23[] = {
    {"x", "T1", kT1Types19}, {"y_scale", "T2", kT1Types19}, {"y_zero_point", "T3", kT3Types23, Arity::kOptional}};
constexpr Param kOutputs23[] = {{"y", "T3", kT3Types23}};
constexpr AttrSpec kAttributes23[] = {{"axis", AttrType::kInt, false, "1"},
                                      {"block_size", AttrType::kInt, false, "0"},
                                      {"output_dtype", AttrType::kInt, false, "0"},
                                      {"precision", AttrType::kInt, false, "0"},
                                      {"saturate", AttrType::kInt, false, "1"}};
constexpr TypeSet kT2Types24 = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32, DType::kF8E8M0};
constexpr Param kInputs24[] = {
    {"x", "T1", kT1Types19}, {"y_scale", "T2", kT2Types24}, {"y_zero_point", "T3", kT3Types23, Arity::kOptional}};
constexpr TypeSet kT3Types25 =
    kByteTypes | TypeSet{DType::kI16,    DType::kU16,        DType::kF8E4M3FN, DType::kF8E4M3FNUZ,
                         DType::kF8E5M2, DType::kF8E5M2FNUZ, DType::kF4E2M1,   DType::kU4,
                         DType::kI4,     DType::kU2,         DType::kI2};
constexpr Param kInputs25[] = {
    {"x", "T1", kT1Types19}, {"y_scale", "T2", kT2Types24}, {"y_zero_point", "T3", kT3Types25, Arity::kOptional}};
constexpr Param kOutputs25[] = {{"y", "T3", kT3Types25}};
constexpr OpVersion kVersions[] = {{10, kInputs10, kOutputs10, {}, Infer, Evaluate},
                                   {13, kInputs10, kOutputs10, kAttributes13, Infer, Evaluate},
                                   {19, kInputs19, kOutputs19, kAttributes19, Infer, Evaluate},
                                   {21, kInputs21, kOutputs21, kAttributes21, Infer, Evaluate},
                                   {23, kInputs23, kOutputs23, kAttributes23, Infer, Evaluate},
                                   {24, kInputs24, kOutputs23, kAttributes23, Infer, Evaluate},
                                   {25, kInputs25, kOutputs25, kAttributes23, Infer, Evaluate},
                                   {28, kInputs25, kOutputs25, kAttributes23, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpQuantizeLinear = {"", "QuantizeLinear", kVersions};

}  // namespace quern
