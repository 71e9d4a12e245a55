// ai.onnx.ml.SVMClassifier: one machine per pair of classes whose votes tell the class, with probabilities by pairwise
// coupling; without support vectors, one linear function per class.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "ops/common/ml_rows.h"
#include "ops/common/post_transform.h"
#include "ops/common/svm.h"

namespace quern {
namespace {

struct Model {
  SvmKernel kernel;
  PostTransform transform = PostTransform::kNone;
  ClassLabels labels;
  int64_t classes = 0, features = 0, pairs = 0;
  int64_t vectors = 0;                         // 0: linear functions of the features
  std::span<const int64_t> vectors_per_class;  // (classes)
  std::span<const float> support_vectors;      // (vectors, features), those of a class together
  std::span<const float> coefficients;         // (classes - 1, vectors), or (classes, features)
  std::span<const float> rho;                  // (pairs), or one
  std::span<const float> prob_a, prob_b;       // (pairs), or empty
  // Columns of the scores. Two classes without probabilities have one machine, whose score takes two columns.
  int64_t num_scores() const { return vectors == 0 || !prob_a.empty() ? classes : std::max<int64_t>(pairs, 2); }
};

Status CheckCount(const Node& node, const char* name, std::span<const float> list, int64_t needed) {
  if (static_cast<int64_t>(list.size()) >= needed) return OkStatus();
  return InvalidArgument(node.Describe() + ": " + name + " has " + std::to_string(list.size()) + " values, " +
                         std::to_string(needed) + " are needed");
}

Result<Model> ReadModel(const Node& node) {
  Model m;
  QUERN_ASSIGN_OR_RETURN(m.kernel, SvmKernel::Read(node));
  QUERN_ASSIGN_OR_RETURN(m.transform, ReadPostTransform(node));
  QUERN_ASSIGN_OR_RETURN(m.labels, ClassLabels::Read(node, "classlabels_ints", "classlabels_strings"));
  m.classes = m.labels.size();
  m.pairs = m.classes * (m.classes - 1) / 2;
  m.vectors_per_class = ListAttribute<int64_t>(node, "vectors_per_class");
  m.support_vectors = ListAttribute<float>(node, "support_vectors");
  m.coefficients = ListAttribute<float>(node, "coefficients");
  m.rho = ListAttribute<float>(node, "rho");
  m.prob_a = ListAttribute<float>(node, "prob_a");
  m.prob_b = ListAttribute<float>(node, "prob_b");
  const auto fault = [&](const std::string& what) { return InvalidArgument(node.Describe() + ": " + what); };
  if (m.classes == 0) return fault("attribute 'classlabels_ints' or 'classlabels_strings' is needed");
  if (m.prob_a.size() != m.prob_b.size()) return fault("prob_a and prob_b must have as many values");
  const int64_t numbers = static_cast<int64_t>(m.support_vectors.size());
  for (const int64_t n : m.vectors_per_class) {
    if (n < 0 || n > numbers) return fault("vectors_per_class holds " + std::to_string(n));
    m.vectors += n;
  }
  if (m.vectors == 0) {
    m.kernel = SvmKernel();
    m.features = static_cast<int64_t>(m.coefficients.size()) / m.classes;
    if (m.features == 0 || static_cast<int64_t>(m.coefficients.size()) % m.classes != 0) {
      return fault(std::to_string(m.coefficients.size()) + " coefficients do not make " + std::to_string(m.classes) +
                   " classes");
    }
    QUERN_RETURN_IF_ERROR(CheckCount(node, "rho", m.rho, 1));
    return m;
  }
  if (m.classes < 2 || static_cast<int64_t>(m.vectors_per_class.size()) != m.classes) {
    return fault("vectors_per_class has " + std::to_string(m.vectors_per_class.size()) + " values for " +
                 std::to_string(m.classes) + " classes, of which there must be at least two");
  }
  if (m.vectors > numbers || numbers % m.vectors != 0) {
    return fault("support_vectors has " + std::to_string(numbers) + " values for " + std::to_string(m.vectors) +
                 " vectors");
  }
  m.features = numbers / m.vectors;
  QUERN_RETURN_IF_ERROR(CheckCount(node, "coefficients", m.coefficients, (m.classes - 1) * m.vectors));
  QUERN_RETURN_IF_ERROR(CheckCount(node, "rho", m.rho, m.pairs));
  if (!m.prob_a.empty()) QUERN_RETURN_IF_ERROR(CheckCount(node, "prob_a", m.prob_a, m.pairs));
  return m;
}

// Scores of the pairs (0,1), (0,2), ..., (1,2), ... of classes for one row; `votes` counts what each class wins.
void ScorePairs(const Model& m, std::span<const double> x, std::vector<double>& scores, std::vector<int64_t>& votes) {
  std::vector<double> kernels(static_cast<size_t>(m.vectors));
  for (int64_t v = 0; v < m.vectors; ++v)
    kernels[v] = m.kernel(x, m.support_vectors.subspan(v * m.features, m.features));
  std::fill(votes.begin(), votes.end(), int64_t{0});
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
      ++votes[scores[pair] > 0 ? i : j];
      first_j += m.vectors_per_class[j];
    }
    first_i += m.vectors_per_class[i];
  }
}

// Probabilities p of the classes from those of the pairs, r[i][j] = P(i | i or j): p minimizes p'Qp with
// Q[i][i] = sum of r[j][i]^2, Q[i][j] = -r[j][i] r[i][j] (Wu, Lin, Weng: Probability Estimates for Multi-class
// Classification by Pairwise Coupling, algorithm 2; steps and tolerance as libsvm has them).
void CouplePairs(const std::vector<double>& r, std::vector<double>& p) {
  const size_t k = p.size();
  std::vector<double> q(k * k, 0.0), qp(k);
  for (size_t i = 0; i < k; ++i) {
    for (size_t j = 0; j < k; ++j) {
      if (i == j) continue;
      q[i * k + i] += r[j * k + i] * r[j * k + i];
      q[i * k + j] = -r[j * k + i] * r[i * k + j];
    }
  }
  std::fill(p.begin(), p.end(), 1.0 / static_cast<double>(k));
  for (int step = 0; step < 100; ++step) {
    double pqp = 0, error = 0;
    for (size_t i = 0; i < k; ++i) {
      qp[i] = 0;
      for (size_t j = 0; j < k; ++j) qp[i] += q[i * k + j] * p[j];
      pqp += p[i] * qp[i];
    }
    for (size_t i = 0; i < k; ++i) error = std::max(error, std::abs(qp[i] - pqp));
    if (error < 0.005 / static_cast<double>(k)) return;
    for (size_t i = 0; i < k; ++i) {
      const double change = (pqp - qp[i]) / q[i * k + i], norm = 1 + change;
      pqp = (pqp + change * (change * q[i * k + i] + 2 * qp[i])) / (norm * norm);
      p[i] += change;
      for (size_t j = 0; j < k; ++j) {
        qp[j] = (qp[j] + change * q[i * k + j]) / norm;
        p[j] /= norm;
      }
    }
  }
}

void PairsToProbabilities(const Model& m, const std::vector<double>& scores, std::vector<double>& probabilities) {
  constexpr double kLeast = 1e-7;
  const auto k = static_cast<size_t>(m.classes);
  std::vector<double> r(k * k, 0.0);
  size_t pair = 0;
  for (size_t i = 0; i < k; ++i) {
    for (size_t j = i + 1; j < k; ++j, ++pair) {
      const double p = Logistic(-(scores[pair] * double{m.prob_a[pair]} + double{m.prob_b[pair]}));
      r[i * k + j] = std::clamp(p, kLeast, 1 - kLeast);
      r[j * k + i] = 1 - r[i * k + j];
    }
  }
  CouplePairs(r, probabilities);
}

// The class of linear scores: the greatest, but of two classes the second whenever a score tells so by its sign (or,
// where no coefficient is negative, reaches 0.5). That is onnxruntime's rule.
int64_t LinearClass(const Model& m, const std::vector<double>& scores) {
  const auto greatest = std::max_element(scores.begin(), scores.end());
  if (m.classes == 2 && m.prob_a.empty()) {
    const bool positive = std::all_of(m.coefficients.begin(), m.coefficients.end(), [](float w) { return w >= 0; });
    if (positive ? *greatest >= 0.5 : *greatest > 0) return 1;
  }
  return greatest - scores.begin();
}

void WriteScores(const Model& m, std::vector<double>& scores, std::vector<double>& probabilities, float* out) {
  if (m.vectors > 0 && !m.prob_a.empty()) {
    PairsToProbabilities(m, scores, probabilities);
    ApplyPostTransform(m.transform, probabilities);
    std::transform(probabilities.begin(), probabilities.end(), out, [](double v) { return static_cast<float>(v); });
    return;
  }
  if (m.vectors > 0 && m.classes == 2) {
    const auto first = m.transform == PostTransform::kNone ? FirstScore::kNegated : FirstScore::kComplement;
    const std::array<double, 2> both = BinaryScores(m.transform, scores[0], first);
    out[0] = static_cast<float>(both[0]);
    out[1] = static_cast<float>(both[1]);
    return;
  }
  ApplyPostTransform(m.transform, scores);
  std::transform(scores.begin(), scores.end(), out, [](double v) { return static_cast<float>(v); });
}

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Model m, ReadModel(c.node()));
  QUERN_ASSIGN_OR_RETURN(const RowDims dims, RowDimsOf(c, 0));
  QUERN_RETURN_IF_ERROR(CheckFeatures(c, dims.features, m.features));
  SetClassifierTypes(c, dims.rows, m.labels, m.num_scores());
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Model m, ReadModel(c.node()));
  QUERN_ASSIGN_OR_RETURN(const FeatureRows<double> x, FeatureRows<double>::Make(c, 0));
  QUERN_RETURN_IF_ERROR(CheckFeatures(c, x.num_features(), m.features));
  const int64_t columns = m.num_scores();
  QUERN_ASSIGN_OR_RETURN(LabelOutput labels, LabelOutput::Make(c, 0, m.labels, x.num_rows()));
  QUERN_ASSIGN_OR_RETURN(const Tensor z, c.AllocateOutput(1, DType::kF32, Shape{x.num_rows(), columns}));
  std::vector<double> scores(static_cast<size_t>(m.vectors == 0 ? m.classes : m.pairs));
  std::vector<double> probabilities(static_cast<size_t>(m.classes));
  std::vector<int64_t> votes(static_cast<size_t>(m.classes));
  for (int64_t n = 0; n < x.num_rows(); ++n) {
    float* out = z.data<float>() + n * columns;
    if (m.vectors == 0) {
      for (int64_t i = 0; i < m.classes; ++i) {
        scores[i] = LinearScore(x.row(n), m.coefficients, {}, i) + double{m.rho[0]};
      }
      labels.Set(n, LinearClass(m, scores));
    } else {
      ScorePairs(m, x.row(n), scores, votes);
      labels.Set(n, std::max_element(votes.begin(), votes.end()) - votes.begin());
    }
    WriteScores(m, scores, probabilities, out);
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
