// ai.onnx.ml.SVMClassifier: one machine per pair of classes whose votes tell the class, with probabilities by pairwise
// coupling; without support vectors, one linear function per class.
#include <vector>

#include "ops/common/ml_rows.h"
#include "ops/common/post_transform.h"
#include "ops/common/svm.h"

namespace quern {
namespace {

// The decisions of the pairs of classes for one row.
void ScorePairs(const SvmClassifier& m, std::span<const double> x, std::vector<double>& scores) {
  std::vector<double> kernels(static_cast<size_t>(m.vectors));
  for (int64_t v = 0; v < m.vectors; ++v)
    kernels[v] = m.kernel(x, m.support_vectors.subspan(v * m.features, m.features));
  // The part of a class's own vectors: row `row` of the coefficients from vector `first` on.
  const auto part = [&](int64_t row, int64_t first, int64_t count) {
    double sum = 0;
    for (int64_t v = first; v < first + count; ++v) sum += double{m.coefficients[row * m.vectors + v]} * kernels[v];
    return sum;
  };
  size_t pair = 0;
  int64_t first_i = 0;
  for (int64_t i = 0; i < m.classes; ++i) {
    int64_t first_j = first_i + m.vectors_per_class[i];
    for (int64_t j = i + 1; j < m.classes; ++j, ++pair) {
      scores[pair] =
          part(j - 1, first_i, m.vectors_per_class[i]) + part(i, first_j, m.vectors_per_class[j]) + double{m.rho[pair]};
      first_j += m.vectors_per_class[j];
    }
    first_i += m.vectors_per_class[i];
  }
}

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const SvmClassifier m, SvmClassifier::Read(c.node()));
  QUERN_ASSIGN_OR_RETURN(const RowDims dims, RowDimsOf(c, 0));
  QUERN_RETURN_IF_ERROR(CheckFeatures(c, dims.features, m.features));
  SetClassifierTypes(c, dims.rows, m.labels, m.num_scores());
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const SvmClassifier m, SvmClassifier::Read(c.node()));
  QUERN_ASSIGN_OR_RETURN(const FeatureRows<double> x, FeatureRows<double>::Make(c, 0));
  QUERN_RETURN_IF_ERROR(CheckFeatures(c, x.num_features(), m.features));
  const int64_t columns = m.num_scores();
  QUERN_ASSIGN_OR_RETURN(LabelOutput labels, LabelOutput::Make(c, 0, m.labels, x.num_rows()));
  QUERN_ASSIGN_OR_RETURN(const Tensor z, c.AllocateOutput(1, DType::kF32, Shape{x.num_rows(), columns}));
  std::vector<double> scores(static_cast<size_t>(m.num_decisions())), work(static_cast<size_t>(m.work_doubles()));
  std::vector<int64_t> votes(static_cast<size_t>(m.classes));
  for (int64_t n = 0; n < x.num_rows(); ++n) {
    if (m.vectors == 0) {
      for (int64_t i = 0; i < m.classes; ++i) {
        scores[i] = LinearScore(x.row(n), m.coefficients, {}, i) + double{m.rho[0]};
      }
    } else {
      ScorePairs(m, x.row(n), scores);
    }
    labels.Set(n, m.Choose(scores, votes));
    m.WriteScores(scores, work, z.data<float>() + n * columns);
  }
  return labels.Finish();
}

constexpr AttrSpec kAttributes[] = {{"classlabels_ints", AttrType::kInts},
                                    {"classlabels_strings", AttrType::kStrings},
                                    {"coefficients", AttrType::kFloats},
                                    {"kernel_params", AttrType::kFloats},
                                    {"kernel_type", AttrType::kString, false, "LINEAR"},
                                    kPostTransformAttribute,
                                    {"prob_a", AttrType::kFloats},
                                    {"prob_b", AttrType::kFloats},
                                    {"rho", AttrType::kFloats},
                                    {"support_vectors", AttrType::kFloats},
                                    {"vectors_per_class", AttrType::kInts}};
constexpr OpVersion kVersions[] = {{1, kClassifierInputs, kClassifierOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlSvmClassifier = {
    "ai.onnx.ml", "SVMClassifier", kVersions, "Of two classes, labels and scores are those of onnxruntime."};

}  // namespace quern
