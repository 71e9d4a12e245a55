// QuantizeLinear: y = saturate(rint(x / y_scale) + y_zero_point), per tensor, per axis or per block.
#include "ops/common/any_types.h"
#include "ops/common/quantization.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

constexpr Param kInputs10[] = {{"x", "T1", TypeSet{DType::kF32, DType::kI32}},
                               {"y_scale", "", kF32Type},
                               {"y_zero_point", "T2", kByteTypes, Arity::kOptional}};
constexpr Param kOutputs10[] = {{"y", "T2", kByteTypes}};
constexpr AttrSpec kAttributes13[] = {{"axis", AttrType::kInt, false, "1"}};
constexpr TypeSet kXTypes = {DType::kF32, DType::kF16, DType::kBF16, DType::kI32};
// Types of y and its zero point.
constexpr TypeSet YTypes(int since) {
  TypeSet types = kByteTypes | kFloat8Types;
  if (since >= 21) types = types | TypeSet{DType::kI16, DType::kU16, DType::kI4, DType::kU4};
  if (since >= 23) types = types | TypeSet{DType::kF4E2M1};
  if (since >= 25) types = types | TypeSet{DType::kI2, DType::kU2};
  if (since >= 28) types = types | kFloat6Types;
  return types;
}
constexpr TypeSet ScaleTypes(int since) { return since >= 24 ? kXTypes | TypeSet{DType::kF8E8M0} : kXTypes; }
// x and y_scale share a type before operator set 23.
template <int kSince>
constexpr Param kInputs[] = {{"x", "T1", kXTypes},
                             {"y_scale", kSince >= 23 ? "T2" : "T1", ScaleTypes(kSince)},
                             {"y_zero_point", kSince >= 23 ? "T3" : "T2", YTypes(kSince), Arity::kOptional}};
template <int kSince>
constexpr Param kOutputs[] = {{"y", kSince >= 23 ? "T3" : "T2", YTypes(kSince)}};
constexpr AttrSpec kAttributes19[] = {{"axis", AttrType::kInt, false, "1"}, {"saturate", AttrType::kInt, false, "1"}};
constexpr AttrSpec kAttributes21[] = {{"axis", AttrType::kInt, false, "1"},
                                      {"block_size", AttrType::kInt, false, "0"},
                                      {"output_dtype", AttrType::kInt, false, "0"},
                                      {"saturate", AttrType::kInt, false, "1"}};
constexpr AttrSpec kAttributes23[] = {{"axis", AttrType::kInt, false, "1"},
                                      {"block_size", AttrType::kInt, false, "0"},
                                      {"output_dtype", AttrType::kInt, false, "0"},
                                      {"precision", AttrType::kInt, false, "0"},
                                      {"saturate", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {
    {10, kInputs10, kOutputs10, {}, InferQuantizeLinear, EvaluateQuantizeLinear},
    {13, kInputs10, kOutputs10, kAttributes13, InferQuantizeLinear, EvaluateQuantizeLinear},
    {19, kInputs<19>, kOutputs<19>, kAttributes19, InferQuantizeLinear, EvaluateQuantizeLinear},
    {21, kInputs<21>, kOutputs<21>, kAttributes21, InferQuantizeLinear, EvaluateQuantizeLinear},
    {23, kInputs<23>, kOutputs<23>, kAttributes23, InferQuantizeLinear, EvaluateQuantizeLinear},
    {24, kInputs<24>, kOutputs<24>, kAttributes23, InferQuantizeLinear, EvaluateQuantizeLinear},
    {25, kInputs<25>, kOutputs<25>, kAttributes23, InferQuantizeLinear, EvaluateQuantizeLinear},
    {28, kInputs<28>, kOutputs<28>, kAttributes23, InferQuantizeLinear, EvaluateQuantizeLinear}};

}  // namespace

extern constinit const OpDefinition kOpQuantizeLinear = {"", "QuantizeLinear", kVersions};

}  // namespace quern
