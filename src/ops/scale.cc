// Scale: the input times a number.
#include "ops/common/float_unary.h"
#include "ops/common/legacy_experimental.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const double scale = c.node().GetFloat("scale", 1.0f);
  return EvaluateFloatUnary(c, [=](double x) { return scale * x; });
}

constexpr AttrSpec kAttributes[] = {{"scale", AttrType::kFloat, false, "1.0"}};
constexpr OpVersion kVersions[] = {{1, kExperimentalInput, kExperimentalOutput, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpScale = {"", "Scale", kVersions, kExperimentalNotes};

}  // namespace quern
