// SequenceConstruct: the inputs as a sequence.
#include "ops/common/sequences.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  ValueType element = c.HasInput(0) ? c.input_type(0) : ValueType{};
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.HasInput(i)) return c.Error("input " + std::to_string(i) + " is omitted but required");
    if (i > 0) element = CommonType(element, c.input_type(i));
  }
  c.SetOutputType(0, SequenceOf(std::move(element)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  ValueSequence elements;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.HasInput(i)) return c.Error("input " + std::to_string(i) + " is omitted but required");
    elements.push_back(c.input_value(i));
  }
  c.SetOutput(0, Value::Sequence(std::move(elements)));
  return OkStatus();
}

constexpr Param kInputs[] = {{"inputs", "T", AnyTypes(11), Arity::kVariadic}};
constexpr Param kOutputs[] = {{"output_sequence", "S", {}, Arity::kSingle, ValueKind::kSequence}};
constexpr OpVersion kVersions[] = {{11, kInputs, kOutputs, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSequenceConstruct = {"", "SequenceConstruct", kVersions};

}  // namespace quern
