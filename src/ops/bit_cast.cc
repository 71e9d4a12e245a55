// BitCast: the bits of the elements, read as another type of the same width.
#include <cstring>

#include "ops/common/any_types.h"
#include "ops/common/dtype_attribute.h"
#include "ops/common/eval_infer.h"
#include "ops/op.h"

namespace quern {
namespace {

constexpr TypeSet AllButStrings() {
  return kNumericTypes | kFloat8Types | TypeSet{DType::kBool,   DType::kC64,    DType::kC128, DType::kU4, DType::kI4,
                                                DType::kF4E2M1, DType::kF8E8M0, DType::kU2,   DType::kI2};
}

int BitsOf(DType t) {
  const DTypeInfo info = GetDTypeInfo(t);
  return 8 * info.block_bytes / info.block_elements;
}

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const DType target, ReadDTypeAttribute(c.node(), "to", DType::kUndefined, AllButStrings()));
  const DType from = c.input_dtype(0);
  if (from != DType::kUndefined && BitsOf(from) != BitsOf(target)) {
    return c.Error(std::string("elements of type ") + DTypeName(from) + " have " + std::to_string(BitsOf(from)) +
                   " bits but those of " + DTypeName(target) + " have " + std::to_string(BitsOf(target)));
  }
  c.SetOutputType(0, ValueType::Tensor(target, c.input_shape(0)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Tensor& x = c.input(0);
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  if (y.dtype() == DType::kBool) {  // a bool of other bits than 0 and 1 would be undefined wherever it is read
    const auto* bytes = static_cast<const uint8_t*>(x.raw_data());
    for (int64_t i = 0; i < y.num_elements(); ++i) y.data<bool>()[i] = bytes[i] != 0;
  } else if (y.bytes() > 0) {
    std::memcpy(y.raw_data(), x.raw_data(), y.bytes());
  }
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"to", AttrType::kInt, true}};
constexpr Param kInputs[] = {{"input", "T1", AllButStrings()}}, kOutputs[] = {{"output", "T2", AllButStrings()}};
constexpr OpVersion kVersions[] = {{26, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpBitCast = {"", "BitCast", kVersions,
                                                  "Bytes read as bool are 0 or 1 afterwards."};

}  // namespace quern
