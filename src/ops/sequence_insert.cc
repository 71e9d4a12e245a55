// SequenceInsert: a sequence with a tensor put in before a position, by default at the end.
#include "ops/common/sequences.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const ValueType held = HeldType(c, 0), &tensor = c.input_type(1);
  if (held.dtype != DType::kUndefined && tensor.dtype != DType::kUndefined && held.dtype != tensor.dtype) {
    return c.Error(std::string("a tensor of element type ") + DTypeName(tensor.dtype) +
                   " cannot go into a sequence of " + DTypeName(held.dtype));
  }
  c.SetOutputType(0, SequenceOf(CommonType(held, tensor)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const TensorSequence sequence, ReadSequence(c, 0));
  const Value& tensor = c.input_value(1);
  const DType dtype = ElementTypeOf(tensor);
  if (sequence.size() > 0 && sequence.dtype != dtype) {
    return c.Error(std::string("a tensor of element type ") + DTypeName(dtype) + " cannot go into a sequence of " +
                   DTypeName(sequence.dtype));
  }
  int64_t at = static_cast<int64_t>(sequence.size());
  if (c.HasInput(2)) {
    QUERN_ASSIGN_OR_RETURN(at, ReadPosition(c, 2, at, at));
  }
  ValueSequence elements = *sequence.elements;
  elements.insert(elements.begin() + at, tensor);
  c.SetOutput(0, Value::Sequence(std::move(elements)));
  return OkStatus();
}

constexpr Param kInputs[] = {{"input_sequence", "S", {}, Arity::kSingle, ValueKind::kSequence},
                             {"tensor", "T", AnyTypes(11)},
                             {"position", "I", kIndexTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output_sequence", "S", {}, Arity::kSingle, ValueKind::kSequence}};
constexpr OpVersion kVersions[] = {{11, kInputs, kOutputs, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSequenceInsert = {"", "SequenceInsert", kVersions};

}  // namespace quern
