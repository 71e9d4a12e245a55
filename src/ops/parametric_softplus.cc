// ParametricSoftplus: alpha * ln(1 + exp(beta * x)); where a file leaves them out, alpha and beta are 1.
#include <cmath>

#include "ops/common/float_unary.h"
#include "ops/common/legacy_experimental.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const double alpha = c.node().GetFloat("alpha", 1.0f), beta = c.node().GetFloat("beta", 1.0f);
  return EvaluateFloatUnary(c, [=](double x) {
    const double v = beta * x;  // exp of a large number would overflow
    return alpha * (std::fmax(v, 0.0) + std::log1p(std::exp(-std::fabs(v))));
  });
}

constexpr AttrSpec kAttributes[] = {{"alpha", AttrType::kFloat}, {"beta", AttrType::kFloat}};
constexpr OpVersion kVersions[] = {{1, kExperimentalInput, kExperimentalOutput, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpParametricSoftplus = {"", "ParametricSoftplus", kVersions, kExperimentalNotes};

}  // namespace quern
