// Affine: alpha * x + beta.
#include "ops/common/float_unary.h"
#include "ops/common/legacy_experimental.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const double alpha = c.node().GetFloat("alpha", 1.0f), beta = c.node().GetFloat("beta", 0.0f);
  return EvaluateFloatUnary(c, [=](double x) { return alpha * x + beta; });
}

constexpr AttrSpec kAttributes[] = {{"alpha", AttrType::kFloat, false, "1.0"},
                                    {"beta", AttrType::kFloat, false, "0.0"}};
constexpr OpVersion kVersions[] = {{1, kExperimentalInput, kExperimentalOutput, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpAffine = {"", "Affine", kVersions, kExperimentalNotes};

}  // namespace quern
