// SequenceMap: runs a subgraph for each element of a sequence and collects its outputs as sequences.
#include "ops/common/sequences.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  std::vector<ValueType> types;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.HasInput(i)) return c.Error("input " + std::to_string(i) + " is omitted but required");
    const ValueType& type = c.input_type(i);
    types.push_back(type.kind == ValueKind::kSequence ? HeldType(c, i) : type);
  }
  QUERN_ASSIGN_OR_RETURN(std::vector<ValueType> results, c.InferSubgraph("body", std::move(types)));
  if (static_cast<int>(results.size()) != c.num_outputs()) {
    return c.Error("the body has " + std::to_string(results.size()) + " outputs, the node " +
                   std::to_string(c.num_outputs()));
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.SetOutputType(i, SequenceOf(WithOwnExtents(results[i])));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const TensorSequence first, ReadSequence(c, 0));
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (!c.HasInput(i)) return c.Error("input " + std::to_string(i) + " is omitted but required");
    const Value& value = c.input_value(i);
    if (IsTensorOrStrings(value)) continue;
    if (value.kind() != ValueKind::kSequence) {
      return c.Error("input " + std::to_string(i) + " is a " + ValueKindName(value.kind()) +
                     "; it must be a tensor or a sequence");
    }
    if (value.sequence().size() != first.size()) {
      return c.Error("sequence '" + c.node().input(i)->name() + "' has " + std::to_string(value.sequence().size()) +
                     " elements, '" + c.node().input(0)->name() + "' has " + std::to_string(first.size()));
    }
  }
  std::vector<ValueSequence> collected(static_cast<size_t>(c.num_outputs()));
  for (size_t k = 0; k < first.size(); ++k) {
    std::vector<Value> inputs;
    for (int i = 0; i < c.num_inputs(); ++i) {
      const Value& value = c.input_value(i);
      inputs.push_back(value.kind() == ValueKind::kSequence ? value.sequence()[k] : value);
    }
    QUERN_ASSIGN_OR_RETURN(std::vector<Value> results, c.RunSubgraph("body", std::move(inputs)));
    if (results.size() != collected.size()) {
      return c.Error("the body gave " + std::to_string(results.size()) + " outputs, the node has " +
                     std::to_string(collected.size()));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (!IsTensorOrStrings(results[i])) {
        return c.Error("the body gave a " + std::string(ValueKindName(results[i].kind())) + " for output " +
                       std::to_string(i) + ", sequences hold tensors");
      }
      collected[i].push_back(std::move(results[i]));
    }
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.SetOutput(i, Value::Sequence(std::move(collected[i])));
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"body", AttrType::kGraph, true}};
constexpr Param kInputs[] = {{"input_sequence", "S", {}, Arity::kSingle, ValueKind::kSequence},
                             {"additional_inputs", "V", AnyTypes(11), Arity::kVariadic, ValueKind::kNone, false}};
constexpr Param kOutputs[] = {{"out_sequence", "S", {}, Arity::kVariadic, ValueKind::kSequence, false}};
constexpr OpVersion kVersions[] = {{17, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSequenceMap = {"", "SequenceMap", kVersions};

}  // namespace quern
