// ScaledTanh: alpha * tanh(beta * x); where a file leaves them out, alpha and beta are 1.
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/legacy_experimental.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const double alpha = c.node().GetFloat("alpha", 1.0f), beta = c.node().GetFloat("beta", 1.0f);
  return EvaluateFloatUnary(c, [=](double x) { return alpha * std::tanh(beta * x); });
}

constexpr AttrSpec kAttributes[] = {{"alpha", AttrType::kFloat}, {"beta", AttrType::kFloat}};
constexpr OpVersion kVersions[] = {{1, kExperimentalInput, kExperimentalOutput, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpScaledTanh = {"", "ScaledTanh", kVersions, kExperimentalNotes};

}  // namespace quern
