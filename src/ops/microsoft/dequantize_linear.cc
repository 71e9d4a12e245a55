// com.microsoft.DequantizeLinear: the standard's, which onnxruntime's quantizer writes for types that the model's
// operator set does not have.
#include "ops/common/quantization.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

constexpr TypeSet kXTypes = kByteTypes | TypeSet{DType::kI16, DType::kU16, DType::kI32, DType::kI4, DType::kU4};
constexpr TypeSet kYTypes = {DType::kF32, DType::kF16};
constexpr Param kInputs[] = {
    {"x", "T1", kXTypes}, {"x_scale", "T2", kYTypes}, {"x_zero_point", "T1", kXTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"y", "T2", kYTypes}};
constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {
    {1, kInputs, kOutputs, kAttributes, InferDequantizeLinear, EvaluateDequantizeLinear}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftDequantizeLinear = {"com.microsoft", "DequantizeLinear", kVersions};

}  // namespace quern
