// SequenceLength: how many elements a sequence has.
#include "ops/common/sequences.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  c.SetOutputType(0, ValueType::Tensor(DType::kI64, Dims{}));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Tensor length, c.AllocateOutput(0, DType::kI64, Shape{}));
  *length.data<int64_t>() = static_cast<int64_t>(c.input_value(0).sequence().size());
  return OkStatus();
}

constexpr Param kInputs[] = {{"input_sequence", "S", {}, Arity::kSingle, ValueKind::kSequence}};
constexpr Param kOutputs[] = {{"length", "I", kInt64Type}};
constexpr OpVersion kVersions[] = {{11, kInputs, kOutputs, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSequenceLength = {"", "SequenceLength", kVersions};

}  // namespace quern
