// ai.onnx.ml.LinearRegressor: one linear function of the features per target, then a transform of the row of results.
#include <string>
#include <vector>

#include "ops/common/ml_rows.h"
#include "ops/common/post_transform.h"

namespace quern {
namespace {

struct Model {
  int64_t targets = 1, features = 0;
  std::span<const float> coefficients;  // (targets, features)
  std::span<const float> intercepts;    // (targets), or empty
  PostTransform transform = PostTransform::kNone;
};

Result<Model> ReadModel(const Node& node) {
  Model m;
  QUERN_ASSIGN_OR_RETURN(m.transform, ReadPostTransform(node));
  m.targets = node.GetInt("targets", 1);
  m.coefficients = ListAttribute<float>(node, "coefficients");
  m.intercepts = ListAttribute<float>(node, "intercepts");
  const int64_t count = static_cast<int64_t>(m.coefficients.size());
  if (m.targets < 1 || count == 0 || count % m.targets != 0) {
    return InvalidArgument(node.Describe() + ": " + std::to_string(count) + " coefficients do not make " +
                           std::to_string(m.targets) + " targets");
  }
  if (!m.intercepts.empty() && static_cast<int64_t>(m.intercepts.size()) != m.targets) {
    return InvalidArgument(node.Describe() + ": " + std::to_string(m.intercepts.size()) + " intercepts are given for " +
                           std::to_string(m.targets) + " targets");
  }
  m.features = count / m.targets;
  return m;
}

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Model m, ReadModel(c.node()));
  QUERN_ASSIGN_OR_RETURN(const RowDims dims, RowDimsOf(c, 0));
  QUERN_RETURN_IF_ERROR(CheckFeatures(c, dims.features, m.features));
  c.SetOutputType(0, ValueType::Tensor(DType::kF32, Dims{dims.rows, Dim(m.targets)}));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Model m, ReadModel(c.node()));
  QUERN_ASSIGN_OR_RETURN(const FeatureRows<double> x, FeatureRows<double>::Make(c, 0));
  QUERN_RETURN_IF_ERROR(CheckFeatures(c, x.num_features(), m.features));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, DType::kF32, Shape{x.num_rows(), m.targets}));
  std::vector<double> scores(static_cast<size_t>(m.targets));
  for (int64_t n = 0; n < x.num_rows(); ++n) {
    for (int64_t t = 0; t < m.targets; ++t) scores[t] = LinearScore(x.row(n), m.coefficients, m.intercepts, t);
    ApplyPostTransform(m.transform, scores);
    for (int64_t t = 0; t < m.targets; ++t) y.data<float>()[n * m.targets + t] = static_cast<float>(scores[t]);
  }
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"coefficients", AttrType::kFloats},
                                    {"intercepts", AttrType::kFloats},
                                    kPostTransformAttribute,
                                    {"targets", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{1, kFeatureInputs, kFloatOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlLinearRegressor = {"ai.onnx.ml", "LinearRegressor", kVersions};

}  // namespace quern
