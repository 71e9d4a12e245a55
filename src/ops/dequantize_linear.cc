// DequantizeLinear: y = (x - x_zero_point) * x_scale, per tensor, per axis or per block.
#include <algorithm>

#include "ops/common/any_types.h"
#include "ops/common/dtype_attribute.h"
#include "ops/common/float_io.h"
#include "ops/common/integer_io.h"
#include "ops/common/quantization.h"
#include "ops/common/small_types.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const DType given,
                         ReadDTypeAttribute(c.node(), "output_dtype", DType::kUndefined, AnyDTypeOrNone()));
  const DType type = given != DType::kUndefined ? given : c.input_dtype(1);
  if (type == DType::kF8E8M0) return c.Error("scales of type f8e8m0 need the attribute 'output_dtype'");
  return InferQuantization(c, type);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Tensor &x = c.input(0), &scales = c.input(1);
  QUERN_ASSIGN_OR_RETURN(const QuantizationLayout layout, QuantizationLayout::Make(c, x.shape(), scales.shape()));
  std::vector<float> scale(static_cast<size_t>(scales.num_elements()));
  if (scales.dtype() == DType::kF8E8M0) {
    LoadSmallFloats(scales, 0, scales.num_elements(), scale.data());
  } else {
    WidenFloats<float>(scales.dtype(), scales.raw_data(), scales.num_elements(), scale.data());
  }
  QUERN_ASSIGN_OR_RETURN(FloatOutput<float> y, WriteFloats<float>(c, outputs, 0));
  if (IsSmallFloat(x.dtype())) {
    std::vector<float> values(static_cast<size_t>(x.num_elements())), zero(scale.size(), 0.0f);
    LoadSmallFloats(x, 0, x.num_elements(), values.data());
    if (c.HasInput(2)) LoadSmallFloats(c.input(2), 0, c.input(2).num_elements(), zero.data());
    layout.ForEach([&](int64_t i, int64_t p) { y[i] = (zero[p] == 0 ? values[i] : values[i] - zero[p]) * scale[p]; });
  } else {
    const std::vector<int32_t> values = WidenIntegers(x);
    std::vector<int32_t> zero(scale.size(), 0);
    if (c.HasInput(2)) zero = WidenIntegers(c.input(2));
    layout.ForEach([&](int64_t i, int64_t p) { y[i] = static_cast<float>(int64_t{values[i]} - zero[p]) * scale[p]; });
  }
  y.Finish();
  return OkStatus();
}

constexpr Param kInputs10[] = {{"x", "T", kByteTypes | kI32Type},
                               {"x_scale", "", kF32Type},
                               {"x_zero_point", "T", kByteTypes | kI32Type, Arity::kOptional}};
constexpr Param kOutputs10[] = {{"y", "", kF32Type}};
constexpr AttrSpec kAttributes13[] = {{"axis", AttrType::kInt, false, "1"}};
constexpr TypeSet kYTypes = {DType::kF32, DType::kF16, DType::kBF16};
// Types of x and its zero point.
constexpr TypeSet XTypes(int since) {
  TypeSet types = kByteTypes | kI32Type | kFloat8Types;
  if (since >= 21) types = types | TypeSet{DType::kI16, DType::kU16, DType::kI4, DType::kU4};
  if (since >= 23) types = types | TypeSet{DType::kF4E2M1};
  if (since >= 25) types = types | TypeSet{DType::kI2, DType::kU2};
  if (since >= 28) types = types | kFloat6Types;
  return types;
}
constexpr TypeSet ScaleTypes(int since) { return since >= 24 ? kYTypes | TypeSet{DType::kF8E8M0} : kYTypes; }
template <int kSince>
constexpr Param kInputs[] = {{"x", "T1", XTypes(kSince)},
                             {"x_scale", "T2", ScaleTypes(kSince)},
                             {"x_zero_point", "T1", XTypes(kSince), Arity::kOptional}};
template <int kSince>
constexpr Param kOutputs[] = {{"y", kSince >= 23 ? "T3" : "T2", kYTypes}};
constexpr AttrSpec kAttributes21[] = {{"axis", AttrType::kInt, false, "1"}, {"block_size", AttrType::kInt, false, "0"}};
constexpr AttrSpec kAttributes23[] = {{"axis", AttrType::kInt, false, "1"},
                                      {"block_size", AttrType::kInt, false, "0"},
                                      {"output_dtype", AttrType::kInt, false, "0"}};
constexpr OpVersion kVersions[] = {{10, kInputs10, kOutputs10, {}, Infer, Evaluate},
                                   {13, kInputs10, kOutputs10, kAttributes13, Infer, Evaluate},
                                   {19, kInputs<19>, kOutputs<19>, kAttributes13, Infer, Evaluate},
                                   {21, kInputs<21>, kOutputs<21>, kAttributes21, Infer, Evaluate},
                                   {23, kInputs<23>, kOutputs<23>, kAttributes23, Infer, Evaluate},
                                   {24, kInputs<24>, kOutputs<24>, kAttributes23, Infer, Evaluate},
                                   {25, kInputs<25>, kOutputs<25>, kAttributes23, Infer, Evaluate},
                                   {28, kInputs<28>, kOutputs<28>, kAttributes23, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpDequantizeLinear = {"", "DequantizeLinear", kVersions};

}  // namespace quern
