// com.microsoft.QLinearSigmoid: 1 / (1 + exp(-x)) of a quantized tensor.
#include "ops/common/infer_common.h"
#include "ops/common/q_linear.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  return EvaluateQLinearUnary(c, [](double x) { return 1.0 / (1.0 + std::exp(-x)); });
}

constexpr OpVersion kVersions[] = {{1, kQLinearUnaryInputs, kQLinearUnaryOutputs, {}, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftQLinearSigmoid = {"com.microsoft", "QLinearSigmoid", kVersions};

}  // namespace quern
