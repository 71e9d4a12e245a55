// Identity: the input, of any kind.
#include "ops/common/any_types.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(InferSameAsInput(c, 0, 0));
  if (auto data = PropagatedInput(c, 0)) c.SetOutputData(0, *std::move(data));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  c.SetOutput(0, c.input_value(0));
  return OkStatus();
}

constexpr Param kInputsOfAnyKind[] = {{"input", "V", AnyTypes(25), Arity::kSingle, ValueKind::kNone}};
constexpr Param kOutputsOfAnyKind[] = {{"output", "V", AnyTypes(25), Arity::kSingle, ValueKind::kNone}};
constexpr OpVersion kVersions[] = {
    {1, kDataOfAnyType<1>, kOutputOfAnyType<1>, {}, Infer, Evaluate},
    {13, kDataOfAnyType<13>, kOutputOfAnyType<13>, {}, Infer, Evaluate},
    {14, kInputsOfAnyKind, kOutputsOfAnyKind, {}, Infer, Evaluate},
};

}  // namespace

extern constinit const OpDefinition kOpIdentity = {"", "Identity", kVersions};

}  // namespace quern
