// Clip: x kept within [min, max]; where min > max, max wins. A NaN stays a NaN.
#include <limits>

#include "ops/common/elementwise.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

// The bounds of version 6 are attributes.
Status Evaluate6(EvalContext& c) {
  const double low = c.node().GetFloat("min", std::numeric_limits<float>::lowest());
  const double high = c.node().GetFloat("max", std::numeric_limits<float>::max());
  return EvaluateUnary(c, FloatTypeList{}, [=](auto x) {
    using T = decltype(x);
    const T a = static_cast<T>(low), b = static_cast<T>(high);
    const T v = x < a ? a : x;
    return v > b ? b : v;
  });
}

Status Infer(InferContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) {
    const std::optional<Dims> shape = c.input_shape(i);
    if (shape && AllConstant(*shape) && !Product(*shape).is_constant(1)) {
      return c.Error("bound '" + c.node().input(i)->name() + "' has shape " + DimsToString(*shape) +
                     "; a scalar is needed");
    }
  }
  return InferUnary(c);
}

Status Evaluate(EvalContext& c) {
  QUERN_RETURN_IF_ERROR(InferredOutputs::Make(c, Infer).status());
  const Tensor& x = c.input_value(0).tensor();
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, x.dtype(), x.shape()));
  return DispatchNumeric(x.dtype(),
                         [&]<typename T>() {
                           using C = ComputeType<T>;
                           const bool has_low = c.HasInput(1), has_high = c.HasInput(2);
                           const C low = has_low ? static_cast<C>(*c.input(1).data<T>()) : C{};
                           const C high = has_high ? static_cast<C>(*c.input(2).data<T>()) : C{};
                           ApplyUnary<T, T>(x, y, [=](C v) {
                             if (has_low && v < low) v = low;
                             return has_high && v > high ? high : v;
                           });
                           return OkStatus();
                         })
      .WithContext(c.node().Describe());
}

constexpr Param kInputs6[] = {{"input", "T", kOldFloatTypes}};
constexpr Param kOutputs6[] = {{"output", "T", kOldFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"max", AttrType::kFloat, false, "3.4028235e+38"},
                                    {"min", AttrType::kFloat, false, "-3.4028235e+38"}};
constexpr Param kInputs11[] = {{"input", "T", kOldFloatTypes},
                               {"min", "T", kOldFloatTypes, Arity::kOptional},
                               {"max", "T", kOldFloatTypes, Arity::kOptional}};
constexpr Param kInputs12[] = {{"input", "T", kOldNumericTypes},
                               {"min", "T", kOldNumericTypes, Arity::kOptional},
                               {"max", "T", kOldNumericTypes, Arity::kOptional}};
constexpr Param kOutputs12[] = {{"output", "T", kOldNumericTypes}};
constexpr Param kInputs13[] = {{"input", "T", kNumericTypes},
                               {"min", "T", kNumericTypes, Arity::kOptional},
                               {"max", "T", kNumericTypes, Arity::kOptional}};
constexpr Param kOutputs13[] = {{"output", "T", kNumericTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, kAttributes, InferUnary, Evaluate6},
                                   {11, kInputs11, kOutputs6, {}, Infer, Evaluate},
                                   {12, kInputs12, kOutputs12, {}, Infer, Evaluate},
                                   {13, kInputs13, kOutputs13, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpClip = {"", "Clip", kVersions};

}  // namespace quern
