// com.microsoft.QuantizeLinear: the standard's, which onnxruntime's quantizer writes for types that the model's
// operator set does not have.
#include "ops/common/quantization.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

constexpr TypeSet kXTypes = {DType::kF32, DType::kF16};
constexpr TypeSet kYTypes = kByteTypes | TypeSet{DType::kI16, DType::kU16, DType::kI4, DType::kU4};
constexpr Param kInputs[] = {
    {"x", "T1", kXTypes}, {"y_scale", "T1", kXTypes}, {"y_zero_point", "T2", kYTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"y", "T2", kYTypes}};
constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, InferQuantizeLinear, EvaluateQuantizeLinear}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftQuantizeLinear = {"com.microsoft", "QuantizeLinear", kVersions};

}  // namespace quern
