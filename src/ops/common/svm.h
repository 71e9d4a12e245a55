// Support vector machines: what SVMClassifier and SVMRegressor are made of, and how the scores of a row are written.
#pragma once

#include <algorithm>
#include <span>

#include "ops/common/ml_rows.h"
#include "ops/common/post_transform.h"

namespace quern {

struct SvmKernel {
  enum class Type { kLinear, kPoly, kRbf, kSigmoid };
  Type type = Type::kLinear;
  double gamma = 0, coef0 = 0, degree = 0;

  // Attributes kernel_type and kernel_params.
  static Result<SvmKernel> Read(const Node& node);
  // K(x, v) of a row and a vector of as many features.
  double operator()(std::span<const double> x, std::span<const float> v) const;
};

// One machine per pair of classes whose votes tell the class; without support vectors, one linear function per class.
// Views the attributes of the node.
struct SvmClassifier {
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
  bool no_negative = false;                    // no coefficient of the linear functions is negative

  static Result<SvmClassifier> Read(const Node& node);
  // Numbers that tell the class of a row: of the pairs (0,1), (0,2), ..., (1,2), ..., or of the classes.
  int64_t num_decisions() const { return vectors == 0 ? classes : pairs; }
  // Columns of the scores. Two classes without probabilities have one machine, whose score takes two columns.
  int64_t num_scores() const { return vectors == 0 || !prob_a.empty() ? classes : std::max<int64_t>(pairs, 2); }
  // The index of the class that `decisions` tell; `votes` is scratch of one number per class.
  int64_t Choose(std::span<const double> decisions, std::span<int64_t> votes) const;
  // Doubles of scratch that WriteScores needs.
  int64_t work_doubles() const { return vectors == 0 || prob_a.empty() ? 0 : classes * (2 * classes + 2); }
  // The scores of a row; overwrites the decisions.
  void WriteScores(std::span<double> decisions, std::span<double> work, float* out) const;
};

// A weighted sum of kernels with support vectors, or of the features. Views the attributes of the node.
struct SvmRegressor {
  SvmKernel kernel;
  PostTransform transform = PostTransform::kNone;
  int64_t vectors = 0;  // 0: the coefficients weigh the features themselves
  int64_t features = 0;
  std::span<const float> coefficients;     // (vectors), or (features)
  std::span<const float> support_vectors;  // (vectors, features)
  double rho = 0;
  bool one_class = false;

  static Result<SvmRegressor> Read(const Node& node);
  // The result of a row whose weighted sum, rho included, is `score`.
  float Finish(double score) const;
};

}  // namespace quern
