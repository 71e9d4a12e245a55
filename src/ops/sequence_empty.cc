// SequenceEmpty: a sequence without elements, of tensors of type `dtype`.
#include "ops/common/sequences.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const int64_t number = c.node().GetInt("dtype", static_cast<int64_t>(DType::kF32));
  const bool is_type = number > 0 && number < 64 && AnyTypes(11).Has(static_cast<DType>(number));
  if (!is_type) return c.Error("dtype " + std::to_string(number) + " is no element type of sequences");
  c.SetOutputType(0, SequenceOf(ValueType::Tensor(static_cast<DType>(number))));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  c.SetOutput(0, Value::Sequence({}));
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"dtype", AttrType::kInt}};
constexpr Param kOutputs[] = {{"output", "S", {}, Arity::kSingle, ValueKind::kSequence}};
constexpr OpVersion kVersions[] = {{11, {}, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSequenceEmpty = {"", "SequenceEmpty", kVersions};

}  // namespace quern
