#include "ops/common/svm.h"

#include <array>
#include <cmath>
#include <string>

namespace quern {
namespace {

Status CheckCount(const Node& node, const char* name, std::span<const float> list, int64_t needed) {
  if (static_cast<int64_t>(list.size()) >= needed) return OkStatus();
  return InvalidArgument(node.Describe() + ": " + name + " has " + std::to_string(list.size()) + " values, " +
                         std::to_string(needed) + " are needed");
}

// Probabilities p of the classes from those of the pairs, r[i][j] = P(i | i or j): p minimizes p'Qp with
// Q[i][i] = sum of r[j][i]^2, Q[i][j] = -r[j][i] r[i][j] (Wu, Lin, Weng: Probability Estimates for Multi-class
// Classification by Pairwise Coupling, algorithm 2; steps and tolerance as libsvm has them).
// `work` holds k * (k + 1) doubles.
void CouplePairs(std::span<const double> r, std::span<double> p, std::span<double> work) {
  const size_t k = p.size();
  const std::span<double> q = work.first(k * k), qp = work.subspan(k * k, k);
  std::fill(q.begin(), q.end(), 0.0);
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

void PairsToProbabilities(const SvmClassifier& m, std::span<const double> decisions, std::span<double> probabilities,
                          std::span<double> work) {
  constexpr double kLeast = 1e-7;
  const auto k = static_cast<size_t>(m.classes);
  const std::span<double> r = work.first(k * k);
  size_t pair = 0;
  for (size_t i = 0; i < k; ++i) {
    r[i * k + i] = 0;
    for (size_t j = i + 1; j < k; ++j, ++pair) {
      const double p = Logistic(-(decisions[pair] * double{m.prob_a[pair]} + double{m.prob_b[pair]}));
      r[i * k + j] = std::clamp(p, kLeast, 1 - kLeast);
      r[j * k + i] = 1 - r[i * k + j];
    }
  }
  CouplePairs(r, probabilities, work.subspan(k * k));
}

// The class of linear scores: the greatest, but of two classes the second whenever a score tells so by its sign (or,
// where no coefficient is negative, reaches 0.5). That is onnxruntime's rule.
int64_t LinearClass(const SvmClassifier& m, std::span<const double> scores) {
  const auto greatest = std::max_element(scores.begin(), scores.end());
  if (m.classes == 2 && m.prob_a.empty()) {
    if (m.no_negative ? *greatest >= 0.5 : *greatest > 0) return 1;
  }
  return greatest - scores.begin();
}

void WriteTransformed(PostTransform transform, std::span<double> scores, float* out) {
  ApplyPostTransform(transform, scores);
  std::transform(scores.begin(), scores.end(), out, [](double v) { return static_cast<float>(v); });
}

}  // namespace

Result<SvmKernel> SvmKernel::Read(const Node& node) {
  SvmKernel kernel;
  const std::string name = node.GetString("kernel_type", "LINEAR");
  if (name == "POLY") {
    kernel.type = Type::kPoly;
  } else if (name == "RBF") {
    kernel.type = Type::kRbf;
  } else if (name == "SIGMOID") {
    kernel.type = Type::kSigmoid;
  } else if (name != "LINEAR") {
    return InvalidArgument(node.Describe() + ": kernel_type is '" + name +
                           "', one of LINEAR, POLY, RBF and SIGMOID is needed");
  }
  const std::span<const float> params = ListAttribute<float>(node, "kernel_params");
  if (params.empty()) return kernel;
  if (params.size() != 3) {
    return InvalidArgument(node.Describe() + ": kernel_params has " + std::to_string(params.size()) +
                           " values; gamma, coef0 and degree are needed");
  }
  kernel.gamma = params[0];
  kernel.coef0 = params[1];
  kernel.degree = params[2];
  return kernel;
}

double SvmKernel::operator()(std::span<const double> x, std::span<const float> v) const {
  double sum = 0;
  if (type == Type::kRbf) {
    for (size_t i = 0; i < x.size(); ++i) sum += (x[i] - double{v[i]}) * (x[i] - double{v[i]});
    return std::exp(-gamma * sum);
  }
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * double{v[i]};
  switch (type) {
    case Type::kPoly:
      return std::pow(gamma * sum + coef0, degree);
    case Type::kSigmoid:
      return std::tanh(gamma * sum + coef0);
    default:
      return sum;
  }
}

Result<SvmClassifier> SvmClassifier::Read(const Node& node) {
  SvmClassifier m;
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
    m.no_negative = std::all_of(m.coefficients.begin(), m.coefficients.end(), [](float w) { return w >= 0; });
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

int64_t SvmClassifier::Choose(std::span<const double> decisions, std::span<int64_t> votes) const {
  if (vectors == 0) return LinearClass(*this, decisions);
  std::fill(votes.begin(), votes.end(), int64_t{0});
  size_t pair = 0;
  for (size_t i = 0; i < votes.size(); ++i) {
    for (size_t j = i + 1; j < votes.size(); ++j) ++votes[decisions[pair++] > 0 ? i : j];
  }
  return std::max_element(votes.begin(), votes.end()) - votes.begin();
}

void SvmClassifier::WriteScores(std::span<double> decisions, std::span<double> work, float* out) const {
  if (vectors > 0 && !prob_a.empty()) {
    const std::span<double> probabilities = work.first(static_cast<size_t>(classes));
    PairsToProbabilities(*this, decisions, probabilities, work.subspan(probabilities.size()));
    return WriteTransformed(transform, probabilities, out);
  }
  if (vectors > 0 && classes == 2) {
    const auto first = transform == PostTransform::kNone ? FirstScore::kNegated : FirstScore::kComplement;
    const std::array<double, 2> both = BinaryScores(transform, decisions[0], first);
    out[0] = static_cast<float>(both[0]);
    out[1] = static_cast<float>(both[1]);
    return;
  }
  WriteTransformed(transform, decisions, out);
}

Result<SvmRegressor> SvmRegressor::Read(const Node& node) {
  SvmRegressor m;
  QUERN_ASSIGN_OR_RETURN(m.kernel, SvmKernel::Read(node));
  QUERN_ASSIGN_OR_RETURN(m.transform, ReadPostTransform(node));
  m.vectors = node.GetInt("n_supports", 0);
  m.coefficients = ListAttribute<float>(node, "coefficients");
  m.support_vectors = ListAttribute<float>(node, "support_vectors");
  m.one_class = node.GetInt("one_class", 0) != 0;
  const std::span<const float> rho = ListAttribute<float>(node, "rho");
  if (rho.size() != 1) {
    return InvalidArgument(node.Describe() + ": rho has " + std::to_string(rho.size()) + " values, one is needed");
  }
  m.rho = rho[0];
  const int64_t numbers = static_cast<int64_t>(m.support_vectors.size());
  const int64_t count = static_cast<int64_t>(m.coefficients.size());
  if (m.vectors < 0 || (m.vectors > 0 && (numbers == 0 || numbers % m.vectors != 0 || count != m.vectors))) {
    return InvalidArgument(node.Describe() + ": n_supports is " + std::to_string(m.vectors) + ", support_vectors has " +
                           std::to_string(numbers) + " numbers and coefficients " + std::to_string(count));
  }
  if (count == 0) return InvalidArgument(node.Describe() + ": attribute 'coefficients' is needed");
  m.features = m.vectors > 0 ? numbers / m.vectors : count;
  return m;
}

float SvmRegressor::Finish(double score) const {
  if (one_class) return score > 0 ? 1 : -1;
  ApplyPostTransform(transform, std::span(&score, 1));
  return static_cast<float>(score);
}

}  // namespace quern
