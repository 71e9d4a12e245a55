// OptionalGetElement: what an optional holds; a tensor or a sequence passes through.
#include "ops/common/sequences.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const ValueType& type = c.input_type(0);
  c.SetOutputType(0, type.kind == ValueKind::kOptional ? HeldType(c, 0) : type);
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  const Value& value = c.input_value(0);
  if (value.kind() != ValueKind::kOptional) {
    c.SetOutput(0, value);
    return OkStatus();
  }
  if (!value.optional_element().has_value()) {
    return c.Error("the optional '" + c.node().input(0)->name() + "' holds nothing");
  }
  c.SetOutput(0, value.optional_element());
  return OkStatus();
}

// Version 15 names optionals only, but a Loop may turn an optional state into what it holds.
constexpr Param kInputs15[] = {{"input", "O", {}, Arity::kSingle, ValueKind::kNone}};
template <int kSince>
constexpr Param kInputs[] = {{"input", "O", AnyTypes(kSince), Arity::kSingle, ValueKind::kNone}};
template <int kSince>
constexpr Param kOutputs[] = {{"output", "V", AnyTypes(kSince), Arity::kSingle, ValueKind::kNone}};
constexpr OpVersion kVersions[] = {{15, kInputs15, kOutputs<11>, {}, Infer, Evaluate},
                                   {18, kInputs<11>, kOutputs<11>, {}, Infer, Evaluate},
                                   {28, kInputs<28>, kOutputs<28>, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpOptionalGetElement = {"", "OptionalGetElement", kVersions};

}  // namespace quern
