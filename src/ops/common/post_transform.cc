#include "ops/common/post_transform.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace quern {
namespace {

constexpr const char* kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};

void Softmax(std::span<double> scores) {
  if (scores.empty()) return;
  const double greatest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) sum += s = std::exp(s - greatest);
  for (double& s : scores) s /= sum;
}

// Softmax of the scores that are not zero; zeros stay so.
void SoftmaxZero(std::span<double> scores) {
  if (scores.empty()) return;
  constexpr double kZero = 1e-7;  // onnxruntime's bound
  const double greatest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) {
    if (s > kZero || s < -kZero) {
      sum += s = std::exp(s - greatest);
    } else {
      s *= std::exp(-greatest);
    }
  }
  if (sum == 0) return;
  for (double& s : scores) s /= sum;
}

}  // namespace

Result<PostTransform> ReadPostTransform(const Node& node) {
  if (const int64_t* number = node.FindAttribute<int64_t>("post_transform")) {
    if (*number >= 0 && *number < static_cast<int64_t>(std::size(kNames))) return static_cast<PostTransform>(*number);
    return InvalidArgument(node.Describe() + ": post_transform is " + std::to_string(*number) + ", it must be 0 to 4");
  }
  const std::string name = node.GetString("post_transform", "NONE");
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found != std::end(kNames)) return static_cast<PostTransform>(found - std::begin(kNames));
  return InvalidArgument(node.Describe() + ": post_transform is '" + name +
                         "', one of NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO and PROBIT is needed");
}

double Logistic(double x) {
  const float p = 1 / (1 + std::exp(-std::abs(static_cast<float>(x))));
  return x < 0 ? 1 - p : p;
}

double Probit(double p) {
  constexpr double kA = 0.147;  // of the formula: erf(x)^2 is nearly 1 - exp(-x^2 (4/pi + a x^2) / (1 + a x^2))
  const double x = 2 * p - 1;
  const double log = std::log((1 - x) * (1 + x));
  const double b = 2 / (std::numbers::pi * kA) + log / 2;
  const double y = std::sqrt(std::sqrt(b * b - log / kA) - b);
  return std::numbers::sqrt2 * (x < 0 ? -y : y);
}

void ApplyPostTransform(PostTransform transform, std::span<double> scores) {
  switch (transform) {
    case PostTransform::kNone:
      return;
    case PostTransform::kSoftmax:
      return Softmax(scores);
    case PostTransform::kSoftmaxZero:
      return SoftmaxZero(scores);
    case PostTransform::kLogistic:
      for (double& s : scores) s = Logistic(s);
      return;
    case PostTransform::kProbit:
      for (double& s : scores) s = Probit(s);
      return;
  }
}

std::array<double, 2> BinaryScores(PostTransform transform, double score, FirstScore first) {
  if (transform == PostTransform::kLogistic) return {Logistic(-score), Logistic(score)};
  std::array<double, 2> scores = {first == FirstScore::kNegated ? -score : 1 - score, score};
  if (transform == PostTransform::kProbit) scores = {Probit(1 - score), Probit(score)};
  return scores;
}

}  // namespace quern
