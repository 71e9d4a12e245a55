#include "ops/common/tree_classes.h"

#include <algorithm>
#include <array>
#include <string>

namespace quern {
namespace {

void Write(std::span<const double> scores, float* out) {
  std::transform(scores.begin(), scores.end(), out, [](double v) { return static_cast<float>(v); });
}

// Three classes or more: the greatest score among the classes with a vote, the first one of equals.
template <typename T>
TreeLabel FinishMany(const TreeClasses& m, std::span<const T> base, std::span<TreeScore<T>> scores,
                     std::span<double> transformed, float* out) {
  int64_t best = -1;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!base.empty()) scores[i] = {scores[i].value + base[i], true};
    if (scores[i].voted && (best < 0 || scores[i].value > scores[static_cast<size_t>(best)].value)) {
      best = static_cast<int64_t>(i);
    }
    transformed[i] = scores[i].value;
  }
  ApplyPostTransform(m.transform, transformed);
  Write(transformed, out);
  return {std::max<int64_t>(best, 0)};
}

// One class: labels 1 and 0, or the only string; the score stays as it is unless it is a probability to be inverted.
template <typename T>
TreeLabel FinishOne(const TreeClasses& m, std::span<const T> base, const TreeScore<T>& score, float* out) {
  const T s = base.empty() ? score.value : score.value + base[0];
  *out = static_cast<float>(m.transform == PostTransform::kProbit ? Probit(s) : s);
  if (m.labels.dtype() == DType::kString) return {0};
  return {s > 0, true};
}

// Two classes. Without a vote for the second one the score of the first tells both.
template <typename T>
TreeLabel FinishTwo(const TreeClasses& m, std::span<const T> base, std::span<TreeScore<T>> scores, float* out) {
  TreeScore<T>&first = scores[0], &second = scores[1];
  if (base.size() == 2 && second.voted) {
    second.value = base[1] + first.value;
    first.value = -second.value;
  } else if (!base.empty()) {
    first.value += base[0];
  }
  const T deciding = second.voted ? second.value : first.voted ? first.value : T{0};
  const TreeLabel label = m.one_score ? TreeLabel{m.positive ? deciding > T{0.5} : deciding > 0}
                                      : TreeLabel{deciding > 0, m.labels.dtype() != DType::kString};
  if (second.voted || base.size() == 2) {
    std::array<double, 2> both = {first.voted ? first.value : T{0}, second.voted ? second.value : T{0}};
    ApplyPostTransform(m.transform, both);
    Write(both, out);
    return label;
  }
  const bool complement = m.one_score && m.positive;
  Write(BinaryScores(m.transform, first.value, complement ? FirstScore::kComplement : FirstScore::kNegated), out);
  return label;
}

}  // namespace

Result<TreeClasses> TreeClasses::ReadLabels(const Node& node) {
  TreeClasses m;
  QUERN_ASSIGN_OR_RETURN(m.labels, ClassLabels::Read(node, "classlabels_int64s", "classlabels_strings"));
  if (m.labels.size() == 0) {
    return InvalidArgument(node.Describe() + ": attribute 'classlabels_int64s' or 'classlabels_strings' is needed");
  }
  QUERN_ASSIGN_OR_RETURN(m.transform, ReadPostTransform(node));
  return m;
}

template <typename T>
Result<TreeClassifier<T>> TreeClassifier<T>::Read(const Node& node) {
  TreeClassifier c;
  QUERN_ASSIGN_OR_RETURN(c.classes, TreeClasses::ReadLabels(node));
  QUERN_ASSIGN_OR_RETURN(c.base, ReadTreeNumbers<T>(node, "base_values"));
  const auto count = static_cast<size_t>(c.classes.labels.size());
  if (!c.base.empty() && c.base.size() != count && !(count == 2 && c.base.size() == 1)) {
    return InvalidArgument(node.Describe() + ": base_values has " + std::to_string(c.base.size()) + " values for " +
                           std::to_string(count) + " classes");
  }
  const std::span<const int64_t> ids = ListAttribute<int64_t>(node, "class_ids");
  QUERN_ASSIGN_OR_RETURN(const std::vector<T> weights, ReadTreeNumbers<T>(node, "class_weights"));
  c.classes.one_score =
      count == 2 && !ids.empty() && std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id == ids[0]; });
  c.classes.positive = std::none_of(weights.begin(), weights.end(), [](T w) { return w < 0; });
  return c;
}

template <typename T>
TreeLabel TreeClassifier<T>::Finish(std::span<TreeScore<T>> scores, std::span<double> scratch, float* out) const {
  if (scores.size() == 1) return FinishOne<T>(classes, base, scores[0], out);
  if (scores.size() == 2) return FinishTwo<T>(classes, base, scores, out);
  return FinishMany<T>(classes, base, scores, scratch, out);
}

bool TreeClassifierNeedsDoubles(const Node& node, DType input) {
  return input == DType::kF64 ||
         HoldsDoubles(node, {"nodes_values_as_tensor", "class_weights_as_tensor", "base_values_as_tensor"});
}

template struct TreeClassifier<float>;
template struct TreeClassifier<double>;

}  // namespace quern
