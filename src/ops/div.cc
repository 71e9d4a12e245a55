// Div: elementwise quotient with broadcasting; integers are truncated towards zero.
#include "ops/common/legacy_broadcast.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(InferBroadcast(c));
  PropagateElementwise(c, [](const Dim& a, const Dim& b) -> std::optional<Dim> {
    if (b.is_constant() ? b.value() <= 0 : !(a.is_non_negative() && b.is_non_negative())) return std::nullopt;
    if (a.is_constant() && b.is_constant()) return Dim(a.value() / b.value());
    return Dim::FloorDiv(a, b);  // an extent is never negative, so both roundings agree
  });
  return OkStatus();
}

// `by_zero` is set when an integer is divided by zero.
struct Divide {
  bool* by_zero;
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == T{0}) {
        *by_zero = true;
        return T{0};
      }
      if constexpr (std::is_signed_v<T>) {
        if (b == T{-1}) return WrappingSub<T>(0, a);
      }
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};

Status Checked(EvalContext& c, Status status, bool by_zero) {
  if (status.ok() && by_zero) return c.Error("integer division by zero");
  return status;
}

Status Evaluate(EvalContext& c) {
  bool by_zero = false;
  const Status status = EvaluateBinary(c, NumericTypeList{}, Divide{&by_zero});
  return Checked(c, status, by_zero);
}

Status Evaluate6(EvalContext& c) {
  bool by_zero = false;
  const Status status = EvaluateLegacyBinary(c, NumericTypeList{}, Divide{&by_zero});
  return Checked(c, status, by_zero);
}

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

extern constinit const OpDefinition kOpDiv = {"", "Div", kVersions};

}  // namespace quern
