// OptionalHasElement: whether an optional holds something; true for a tensor or a sequence, false without an input.
#include "ops/common/any_types.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  c.SetOutputType(0, ValueType::Tensor(DType::kBool, Dims{}));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Tensor has, c.AllocateOutput(0, DType::kBool, Shape{}));
  const bool optional = c.HasInput(0) && c.input_value(0).kind() == ValueKind::kOptional;
  *has.data<bool>() = optional ? c.input_value(0).optional_element().has_value() : c.HasInput(0);
  return OkStatus();
}

// Version 15 names optionals only, but a Loop may turn an optional state into what it holds.
constexpr Param kInputs15[] = {{"input", "O", {}, Arity::kSingle, ValueKind::kNone}};
template <int kSince>
constexpr Param kInputs[] = {{"input", "O", AnyTypes(kSince), Arity::kOptional, ValueKind::kNone}};
constexpr Param kOutputs[] = {{"output", "B", kBoolType}};
constexpr OpVersion kVersions[] = {{15, kInputs15, kOutputs, {}, Infer, Evaluate},
                                   {18, kInputs<11>, kOutputs, {}, Infer, Evaluate},
                                   {28, kInputs<28>, kOutputs, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpOptionalHasElement = {"", "OptionalHasElement", kVersions};

}  // namespace quern
