// SwiGLU: a / (1 + exp(-alpha * a)) * b for a gate and a value of one shape.
#include <cmath>

#include "ops/common/elementwise.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> a = c.input_shape(0), b = c.input_shape(1);
  bool same = !a || !b || a->size() == b->size();
  for (size_t d = 0; same && a && b && d < a->size(); ++d) {
    same = !(*a)[d].is_constant() || !(*b)[d].is_constant() || (*a)[d] == (*b)[d];
  }
  if (!same) return c.Error("A has shape " + DimsToString(*a) + " but B has " + DimsToString(*b));
  return InferUnary(c);
}

Status Evaluate(EvalContext& c) {
  QUERN_RETURN_IF_ERROR(InferredOutputs::Make(c, Infer).status());
  const double alpha = c.node().GetFloat("alpha", 1.0f);
  return EvaluateBinary(c, FloatTypeList{}, [=](auto a, auto b) {
    const double gate = static_cast<double>(a);
    return static_cast<decltype(a)>(gate / (1.0 + std::exp(-alpha * gate)) * static_cast<double>(b));
  });
}

constexpr Param kInputs[] = {{"A", "T", kFloatTypes}, {"B", "T", kFloatTypes}};
constexpr Param kOutputs[] = {{"Y", "T", kFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"alpha", AttrType::kFloat, false, "1"}};
constexpr OpVersion kVersions[] = {{28, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSwiGlu = {"", "SwiGLU", kVersions};

}  // namespace quern
