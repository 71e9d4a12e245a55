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

template <int kSince>
constexpr Param kInputs[] = {{"input", "T", AnyTypes(kSince)}};
template <int kSince>
constexpr Param kInputsOfAnyKind[] = {{"input", "V", AnyTypes(kSince), Arity::kSingle, ValueKind::kNone}};
template <int kSince>
constexpr Param kOutputsOfAnyKind[] = {{"output", "V", AnyTypes(kSince), Arity::kSingle, ValueKind::kNone}};
template <int kSince>
constexpr OpVersion kVersion = {kSince, kInputsOfAnyKind<kSince>, kOutputsOfAnyKind<kSince>, {}, Infer, Evaluate};
constexpr OpVersion kVersions[] = {{1, kInputs<1>, kOutputOfAnyType<1>, {}, Infer, Evaluate},
                                   {13, kInputs<13>, kOutputOfAnyType<13>, {}, Infer, Evaluate},
                                   kVersion<14>,
                                   kVersion<16>,
                                   kVersion<19>,
                                   kVersion<21>,
                                   kVersion<23>,
                                   kVersion<24>,
                                   kVersion<25>};

}  // namespace

extern constinit const OpDefinition kOpIdentity = {"", "Identity", kVersions};

}  // namespace quern
