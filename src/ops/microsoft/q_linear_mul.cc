// com.microsoft.QLinearMul: product of quantized tensors.
#include "ops/common/q_linear.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateQLinearBinary(c, [](double a, double b) { return a * b; });
}

constexpr OpVersion kVersions[] = {{1, kQLinearBinaryInputs, kQLinearBinaryOutputs, {}, InferQLinearBinary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftQLinearMul = {"com.microsoft", "QLinearMul", kVersions};

}  // namespace quern
