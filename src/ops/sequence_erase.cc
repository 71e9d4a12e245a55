// SequenceErase: a sequence without the element at a position, by default the last.
#include "ops/common/infer_common.h"
#include "ops/common/sequences.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const TensorSequence sequence, ReadSequence(c, 0));
  const int64_t count = static_cast<int64_t>(sequence.size());
  int64_t at = count - 1;
  if (c.HasInput(1)) {
    QUERN_ASSIGN_OR_RETURN(at, ReadPosition(c, 1, count, count - 1));
  } else if (count == 0) {
    return c.Error("there is nothing to erase from an empty sequence");
  }
  ValueSequence elements = *sequence.elements;
  elements.erase(elements.begin() + at);
  c.SetOutput(0, Value::Sequence(std::move(elements)));
  return OkStatus();
}

constexpr Param kInputs[] = {{"input_sequence", "S", {}, Arity::kSingle, ValueKind::kSequence},
                             {"position", "I", kIndexTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output_sequence", "S", {}, Arity::kSingle, ValueKind::kSequence}};
constexpr OpVersion kVersions[] = {{11, kInputs, kOutputs, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSequenceErase = {"", "SequenceErase", kVersions};

}  // namespace quern
