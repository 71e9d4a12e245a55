// Mod: remainder with the sign of the divisor, or (fmod = 1) of the dividend.
#include <cmath>

#include "ops/common/elementwise.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

constexpr int kFloatModSince = 28;  // before, floats need fmod = 1

Status Infer(InferContext& c) {
  const bool fmod = c.node().GetInt("fmod", 0) != 0;
  if (!fmod && c.node().opset() < kFloatModSince && IsFloatType(c.input_dtype(0))) {
    return c.Error("float inputs need 'fmod' = 1 before operator set 28");
  }
  QUERN_RETURN_IF_ERROR(InferBroadcast(c));
  if (!fmod) {
    PropagateElementwise(c, [](const Dim& a, const Dim& b) -> std::optional<Dim> {
      if (!b.is_constant() || b.value() <= 0) return std::nullopt;
      return Dim::Mod(a, b);
    });
  }
  return OkStatus();
}

// `by_zero` is set when an integer is divided by zero.
struct Remainder {
  bool fmod;
  bool* by_zero;
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == T{0}) {
        *by_zero = true;
        return T{0};
      }
      if constexpr (std::is_signed_v<T>) {
        if (b == T{-1}) return T{0};
      }
      const T r = static_cast<T>(a % b);
      return !fmod && r != T{0} && (r < T{0}) != (b < T{0}) ? static_cast<T>(r + b) : r;
    } else {
      const T r = std::fmod(a, b);
      if (fmod || std::isnan(r)) return r;
      if (r == T{0}) return std::copysign(T{0}, b);
      return (r < T{0}) != (b < T{0}) ? r + b : r;
    }
  }
};

Status Evaluate(EvalContext& c) {
  bool by_zero = false;
  QUERN_RETURN_IF_ERROR(InferredOutputs::Make(c, Infer).status());
  QUERN_RETURN_IF_ERROR(EvaluateBinary(c, NumericTypeList{}, Remainder{c.node().GetInt("fmod", 0) != 0, &by_zero}));
  return by_zero ? c.Error("integer division by zero") : OkStatus();
}

constexpr Param kInputs10[] = {{"A", "T", kOldNumericTypes}, {"B", "T", kOldNumericTypes}};
constexpr Param kOutputs10[] = {{"C", "T", kOldNumericTypes}};
constexpr AttrSpec kAttributes[] = {{"fmod", AttrType::kInt, false, "0"}};
constexpr Param kInputs13[] = {{"A", "T", kNumericTypes}, {"B", "T", kNumericTypes}};
constexpr Param kOutputs13[] = {{"C", "T", kNumericTypes}};
constexpr OpVersion kVersions[] = {{10, kInputs10, kOutputs10, kAttributes, Infer, Evaluate},
                                   {13, kInputs13, kOutputs13, kAttributes, Infer, Evaluate},
                                   {28, kInputs13, kOutputs13, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMod = {"", "Mod", kVersions};

}  // namespace quern
