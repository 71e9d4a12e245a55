// DequantizeLinear: y = (x - x_zero_point) * x_scale, per tensor, per axis or per block.
#include "ops/common/any_types.h"
#include "ops/common/quantization.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

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
constexpr OpVersion kVersions[] = {
    {10, kInputs10, kOutputs10, {}, InferDequantizeLinear, EvaluateDequantizeLinear},
    {13, kInputs10, kOutputs10, kAttributes13, InferDequantizeLinear, EvaluateDequantizeLinear},
    {19, kInputs<19>, kOutputs<19>, kAttributes13, InferDequantizeLinear, EvaluateDequantizeLinear},
    {21, kInputs<21>, kOutputs<21>, kAttributes21, InferDequantizeLinear, EvaluateDequantizeLinear},
    {23, kInputs<23>, kOutputs<23>, kAttributes23, InferDequantizeLinear, EvaluateDequantizeLinear},
    {24, kInputs<24>, kOutputs<24>, kAttributes23, InferDequantizeLinear, EvaluateDequantizeLinear},
    {25, kInputs<25>, kOutputs<25>, kAttributes23, InferDequantizeLinear, EvaluateDequantizeLinear},
    {28, kInputs<28>, kOutputs<28>, kAttributes23, InferDequantizeLinear, EvaluateDequantizeLinear}};

}  // namespace

extern constinit const OpDefinition kOpDequantizeLinear = {"", "DequantizeLinear", kVersions};

}  // namespace quern
