// SequenceAt: the element of a sequence at a position.
#include "ops/common/sequences.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  c.SetOutputType(0, HeldType(c, 0));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const TensorSequence sequence, ReadSequence(c, 0));
  const int64_t count = static_cast<int64_t>(sequence.size());
  QUERN_ASSIGN_OR_RETURN(const int64_t at, ReadPosition(c, 1, count, count - 1));
  c.SetOutput(0, sequence[static_cast<size_t>(at)]);
  return OkStatus();
}

constexpr Param kInputs[] = {{"input_sequence", "S", {}, Arity::kSingle, ValueKind::kSequence},
                             {"position", "I", kIndexTypes}};
constexpr Param kOutputs[] = {{"tensor", "T", AnyTypes(11)}};
constexpr OpVersion kVersions[] = {{11, kInputs, kOutputs, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSequenceAt = {"", "SequenceAt", kVersions};

}  // namespace quern
