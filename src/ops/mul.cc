// Mul: elementwise product with broadcasting; integers wrap around.
#include "ops/common/legacy_broadcast.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(InferBroadcast(c));
  PropagateElementwise(c, [](const Dim& a, const Dim& b) { return a * b; });
  return OkStatus();
}

constexpr auto kMul = [](auto a, auto b) { return WrappingMul(a, b); };

Status Evaluate(EvalContext& c) { return EvaluateBinary(c, NumericTypeList{}, kMul); }

Status Evaluate6(EvalContext& c) { return EvaluateLegacyBinary(c, NumericTypeList{}, kMul); }

constexpr Param kInputs6[] = {{"A", "T", kOldMathTypes}, {"B", "T", kOldMathTypes}};
constexpr Param kOutputs6[] = {{"C", "T", kOldMathTypes}};
constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt}, {"broadcast", AttrType::kInt, false, "0"}};
constexpr Param kInputs13[] = {{"A", "T", kMathTypes}, {"B", "T", kMathTypes}};
constexpr Param kOutputs13[] = {{"C", "T", kMathTypes}};
constexpr Param kInputs14[] = {{"A", "T", kNumericTypes}, {"B", "T", kNumericTypes}};
constexpr Param kOutputs14[] = {{"C", "T", kNumericTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, kAttributes, InferLegacyBroadcast, Evaluate6},
                                   {7, kInputs6, kOutputs6, {}, Infer, Evaluate},
                                   {13, kInputs13, kOutputs13, {}, Infer, Evaluate},
                                   {14, kInputs14, kOutputs14, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMul = {"", "Mul", kVersions};

}  // namespace quern
