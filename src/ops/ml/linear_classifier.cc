// ai.onnx.ml.LinearClassifier: one linear function of the features per class, or one for two classes.
#include <algorithm>
#include <array>
#include <vector>

#include "ops/common/linear_model.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const LinearModel m, LinearModel::Read(c.node()));
  QUERN_ASSIGN_OR_RETURN(const RowDims dims, RowDimsOf(c, 0));
  if (dims.features.is_constant()) {
    QUERN_RETURN_IF_ERROR(m.CountFunctions(c.node(), dims.features).status());
  }
  SetClassifierTypes(c, dims.rows, m.labels, m.labels.size());
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const LinearModel m, LinearModel::Read(c.node()));
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
