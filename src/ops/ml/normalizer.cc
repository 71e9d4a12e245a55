// ai.onnx.ml.Normalizer: each row divided by its greatest element, the sum of its magnitudes, or its length.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "ops/common/ml_rows.h"

namespace quern {
namespace {

Status CheckNorm(const Node& node, const std::string& norm) {
  if (norm == "MAX" || norm == "L1" || norm == "L2") return OkStatus();
  return InvalidArgument(node.Describe() + ": norm is '" + norm + "', one of MAX, L1 and L2 is needed");
}

Status Infer(InferContext& c) {
  QUERN_RETURN_IF_ERROR(CheckNorm(c.node(), c.node().GetString("norm", "MAX")));
  QUERN_RETURN_IF_ERROR(RowDimsOf(c, 0).status());
  c.SetOutputType(0, ValueType::Tensor(DType::kF32, c.input_shape(0)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  const std::string norm = c.node().GetString("norm", "MAX");
  QUERN_RETURN_IF_ERROR(CheckNorm(c.node(), norm));
  QUERN_ASSIGN_OR_RETURN(const FeatureRows<double> x, FeatureRows<double>::Make(c, 0));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, DType::kF32, c.input(0).shape()));
  if (y.num_elements() == 0) return OkStatus();
  float* out = y.data<float>();
  for (int64_t n = 0; n < x.num_rows(); ++n) {
    const std::span<const double> row = x.row(n);
    double divisor = norm == "MAX" ? -std::numeric_limits<double>::infinity() : 0;
    for (const double v : row) {
      divisor = norm == "MAX" ? std::max(divisor, v) : divisor + (norm == "L1" ? std::abs(v) : v * v);
    }
    if (norm == "L2") divisor = std::sqrt(divisor);
    for (const double v : row) *out++ = static_cast<float>(divisor == 0 ? v : v / divisor);
  }
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"norm", AttrType::kString, false, "MAX"}};
constexpr OpVersion kVersions[] = {{1, kFeatureInputs, kFloatOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlNormalizer = {"ai.onnx.ml", "Normalizer", kVersions};

}  // namespace quern
