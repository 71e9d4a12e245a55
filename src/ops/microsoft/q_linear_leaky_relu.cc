// com.microsoft.QLinearLeakyRelu: a quantized tensor, its negative values times alpha.
#include "ops/common/infer_common.h"
#include "ops/common/q_linear.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const double alpha = c.node().GetFloat("alpha", 0.01f);
  return EvaluateQLinearUnary(c, [&](double x) { return x < 0 ? alpha * x : x; });
}

constexpr AttrSpec kAttributes[] = {{"alpha", AttrType::kFloat, false, "0.01"}};
constexpr OpVersion kVersions[] = {{1, kQLinearUnaryInputs, kQLinearUnaryOutputs, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftQLinearLeakyRelu = {"com.microsoft", "QLinearLeakyRelu", kVersions};

}  // namespace quern
