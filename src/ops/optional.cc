// Optional: the input as an optional value, or without an input an optional that holds nothing of type `type`.
#include "ops/common/sequences.h"

namespace quern {
namespace {

bool MayBeHeld(ValueKind kind) {
  return kind == ValueKind::kTensor || kind == ValueKind::kStringTensor || kind == ValueKind::kSequence;
}

Status Infer(InferContext& c) {
  const ValueType* type = c.node().FindAttribute<ValueType>("type");
  if (type == nullptr && !c.HasInput(0)) return c.Error("needs an input or attribute 'type'");
  ValueType element = c.HasInput(0) ? c.input_type(0) : *type;
  if (type != nullptr && c.HasInput(0)) {
    Result<ValueType> both = MergeTypes(element, *type);
    if (!both.ok()) return both.status().WithContext(c.node().Describe() + ": input and attribute 'type'");
    element = std::move(both).value();
  }
  if (!MayBeHeld(element.kind)) {
    return c.Error(std::string("an optional holds a tensor or a sequence; this is of kind ") +
                   ValueKindName(element.kind));
  }
  c.SetOutputType(0, OptionalOf(std::move(element)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  if (c.HasInput(0) && !MayBeHeld(c.input_value(0).kind())) {
    return c.Error(std::string("an optional holds a tensor or a sequence; this is of kind ") +
                   ValueKindName(c.input_value(0).kind()));
  }
  c.SetOutput(0, Value::Optional(c.HasInput(0) ? c.input_value(0) : Value()));
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"type", AttrType::kType}};
template <int kSince>
constexpr Param kInputs[] = {{"input", "V", AnyTypes(kSince), Arity::kOptional, ValueKind::kNone}};
constexpr Param kOutputs[] = {{"output", "O", {}, Arity::kSingle, ValueKind::kOptional}};
constexpr OpVersion kVersions[] = {{15, kInputs<11>, kOutputs, kAttributes, Infer, Evaluate},
                                   {28, kInputs<28>, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpOptional = {"", "Optional", kVersions};

}  // namespace quern
