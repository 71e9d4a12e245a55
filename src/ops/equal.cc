// Equal: a == b, elementwise; strings from operator set 19.
#include "ops/common/compare.h"
#include "ops/common/elements.h"
#include "ops/common/indices.h"

namespace quern {
namespace {

// Whether two extents or numbers are equal, where that is certain.
std::optional<Dim> SurelyEqual(const Dim& a, const Dim& b) {
  if (a == b && !a.has_unknown()) return Dim(1);
  if (a.is_constant() && b.is_constant()) return Dim(0);
  // What is made of extents is never negative ("is this entry the -1 of a Reshape or Expand").
  const Dim &number = a.is_constant() ? a : b, &other = a.is_constant() ? b : a;
  if (number.is_constant() && number.value() < 0 && other.is_non_negative() && !other.has_unknown()) return Dim(0);
  return std::nullopt;
}

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(InferBroadcastToBool(c));
  PropagateElementwise(c, SurelyEqual);
  return OkStatus();
}

using List = Types<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                   uint64_t, bool>;

Status EvaluateStrings(EvalContext& c) {
  const StringTensor &a = c.input_value(0).strings(), &b = c.input_value(1).strings();
  const std::optional<Shape> shape = BroadcastShapes(a.shape, b.shape);
  if (!shape) return c.Error("shapes " + a.shape.ToString() + " and " + b.shape.ToString() + " do not broadcast");
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, DType::kBool, *shape));
  const Shape sa = BroadcastStrides(a.shape, a.shape.ContiguousStrides(), *shape);
  const Shape sb = BroadcastStrides(b.shape, b.shape.ContiguousStrides(), *shape);
  IndexCounter at(*shape);
  for (int64_t i = 0; i < y.num_elements(); ++i, at.Next()) {
    int64_t oa = 0, ob = 0;
    for (int d = 0; d < shape->rank(); ++d) {
      oa += at.index()[d] * sa[d];
      ob += at.index()[d] * sb[d];
    }
    y.data<bool>()[i] = a.values[oa] == b.values[ob];
  }
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  if (!c.input_value(0).is_tensor()) return EvaluateStrings(c);
  return EvaluateBinaryToBool(c, List{}, [](auto a, auto b) { return a == b; });
}
Status EvaluateLegacy(EvalContext& c) {
  return EvaluateLegacyToBool(c, List{}, [](auto a, auto b) { return a == b; });
}

constexpr TypeSet kTypes1 = {DType::kBool, DType::kI32, DType::kI64};
constexpr TypeSet kTypes11 = kOldNumericTypes | kBoolType;
constexpr TypeSet kTypes13 = kNumericTypes | kBoolType;
constexpr TypeSet kTypes19 = kTypes13 | TypeSet{DType::kString};
constexpr Param kInputs1[] = {{"A", "T", kTypes1}, {"B", "T", kTypes1}};
constexpr Param kInputs11[] = {{"A", "T", kTypes11}, {"B", "T", kTypes11}};
constexpr Param kInputs13[] = {{"A", "T", kTypes13}, {"B", "T", kTypes13}};
constexpr Param kInputs19[] = {{"A", "T", kTypes19}, {"B", "T", kTypes19}};
constexpr OpVersion kVersions[] = {
    {1, kInputs1, kBoolOutput, kLegacyBroadcastAttributes, InferLegacyToBool, EvaluateLegacy},
    {7, kInputs1, kBoolOutput, {}, Infer, Evaluate},
    {11, kInputs11, kBoolOutput, {}, Infer, Evaluate},
    {13, kInputs13, kBoolOutput, {}, Infer, Evaluate},
    {19, kInputs19, kBoolOutput, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpEqual = {"", "Equal", kVersions};

}  // namespace quern
