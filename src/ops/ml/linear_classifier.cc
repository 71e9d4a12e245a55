// ai.onnx.ml.LinearClassifier: one linear function of the features per class, or one for two classes.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ops/common/ml_rows.h"
#include "ops/common/post_transform.h"

namespace quern {
namespace {

struct Model {
  PostTransform transform = PostTransform::kNone;
  ClassLabels labels;
  std::span<const float> coefficients;  // (functions, features)
  std::span<const float> intercepts;    // (functions), or empty

  // Linear functions for an input of so many features: one per label, or one for two labels.
  Result<int64_t> CountFunctions(const Node& node, int64_t features) const {
    const int64_t count = static_cast<int64_t>(coefficients.size());
    const int64_t functions = features == 0 || count % features != 0 ? 0 : count / features;
    if (functions == 0 || (functions != labels.size() && !(functions == 1 && labels.size() == 2))) {
      return InvalidArgument(node.Describe() + ": " + std::to_string(count) + " coefficients do not make " +
                             std::to_string(labels.size()) + " class labels of " + std::to_string(features) +
                             " features");
    }
    if (!intercepts.empty() && static_cast<int64_t>(intercepts.size()) != functions) {
      return InvalidArgument(node.Describe() + ": " + std::to_string(intercepts.size()) + " intercepts are given, " +
                             std::to_string(functions) + " are needed");
    }
    return functions;
  }
};

Result<Model> ReadModel(const Node& node) {
  Model m;
  QUERN_ASSIGN_OR_RETURN(m.transform, ReadPostTransform(node));
  QUERN_ASSIGN_OR_RETURN(m.labels, ClassLabels::Read(node, "classlabels_ints", "classlabels_strings"));
  if (m.labels.size() == 0) {
    return InvalidArgument(node.Describe() + ": attribute 'classlabels_ints' or 'classlabels_strings' is needed");
  }
  m.coefficients = ListAttribute<float>(node, "coefficients");
  m.intercepts = ListAttribute<float>(node, "intercepts");
  return m;
}

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Model m, ReadModel(c.node()));
  QUERN_ASSIGN_OR_RETURN(const RowDims dims, RowDimsOf(c, 0));
  if (dims.features.is_constant()) {
    QUERN_RETURN_IF_ERROR(m.CountFunctions(c.node(), dims.features.value()).status());
  }
  SetClassifierTypes(c, dims.rows, m.labels, m.labels.size());
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Model m, ReadModel(c.node()));
  QUERN_ASSIGN_OR_RETURN(const FeatureRows<double> x, FeatureRows<double>::Make(c, 0));
  QUERN_ASSIGN_OR_RETURN(const int64_t functions, m.CountFunctions(c.node(), x.num_features()));
  const int64_t classes = m.labels.size();
  QUERN_ASSIGN_OR_RETURN(LabelOutput labels, LabelOutput::Make(c, 0, m.labels, x.num_rows()));
  QUERN_ASSIGN_OR_RETURN(const Tensor z, c.AllocateOutput(1, DType::kF32, Shape{x.num_rows(), classes}));
  std::vector<double> scores(static_cast<size_t>(functions));
  for (int64_t n = 0; n < x.num_rows(); ++n) {
    float* out = z.data<float>() + n * classes;
    for (int64_t i = 0; i < functions; ++i) scores[i] = LinearScore(x.row(n), m.coefficients, m.intercepts, i);
    if (functions < classes) {
      labels.Set(n, scores[0] > 0);
      const std::array<double, 2> both = BinaryScores(m.transform, scores[0], FirstScore::kComplement);
      out[0] = static_cast<float>(both[0]);
      out[1] = static_cast<float>(both[1]);
    } else {
      labels.Set(n, std::max_element(scores.begin(), scores.end()) - scores.begin());
      ApplyPostTransform(m.transform, scores);
      std::transform(scores.begin(), scores.end(), out, [](double v) { return static_cast<float>(v); });
    }
  }
  return labels.Finish();
}

constexpr AttrSpec kAttributes[] = {
    {"classlabels_ints", AttrType::kInts},       {"classlabels_strings", AttrType::kStrings},
    {"coefficients", AttrType::kFloats, true},   {"intercepts", AttrType::kFloats},
    {"multi_class", AttrType::kInt, false, "0"}, kPostTransformAttribute};
constexpr OpVersion kVersions[] = {{1, kClassifierInputs, kClassifierOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlLinearClassifier = {
    "ai.onnx.ml", "LinearClassifier", kVersions,
    "One row of coefficients for two classes: scores are those of onnxruntime."};

}  // namespace quern
