// ai.onnx.ml.TreeEnsembleClassifier: the votes of many trees for each class, and the class that wins (deprecated from
// version 5). Where the specification is silent (two classes), labels and scores are onnxruntime's.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ops/common/ml_rows.h"
#include "ops/common/post_transform.h"
#include "ops/common/tree_ensemble.h"

namespace quern {
namespace {

struct Model {
  ClassLabels labels;
  PostTransform transform = PostTransform::kNone;
  // Every vote is for the same one of two classes: its score tells both.
  bool one_score = false;
  bool positive = true;  // no vote has a negative weight: scores look like probabilities
};

Result<Model> ReadModel(const Node& node) {
  Model m;
  QUERN_ASSIGN_OR_RETURN(m.labels, ClassLabels::Read(node, "classlabels_int64s", "classlabels_strings"));
  if (m.labels.size() == 0) {
    return InvalidArgument(node.Describe() + ": attribute 'classlabels_int64s' or 'classlabels_strings' is needed");
  }
  QUERN_ASSIGN_OR_RETURN(m.transform, ReadPostTransform(node));
  return m;
}

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Model m, ReadModel(c.node()));
  QUERN_ASSIGN_OR_RETURN(const RowDims dims, RowDimsOf(c, 0));
  SetClassifierTypes(c, dims.rows, m.labels, m.labels.size());
  return OkStatus();
}

void Write(std::span<const double> scores, float* out) {
  std::transform(scores.begin(), scores.end(), out, [](double v) { return static_cast<float>(v); });
}

// Three classes or more: the greatest score among the classes with a vote, the first one of equals.
template <typename T>
void FinishMany(const Model& m, std::span<const T> base, std::span<TreeScore<T>> scores, LabelOutput& labels,
                int64_t row, std::vector<double>& transformed, float* out) {
  int64_t best = -1;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!base.empty()) scores[i] = {scores[i].value + base[i], true};
    if (scores[i].voted && (best < 0 || scores[i].value > scores[static_cast<size_t>(best)].value)) {
      best = static_cast<int64_t>(i);
    }
    transformed[i] = scores[i].value;
  }
  labels.Set(row, std::max<int64_t>(best, 0));
  ApplyPostTransform(m.transform, transformed);
  Write(transformed, out);
}

// One class: labels 1 and 0, or the only string; the score stays as it is unless it is a probability to be inverted.
template <typename T>
void FinishOne(const Model& m, std::span<const T> base, const TreeScore<T>& score, LabelOutput& labels, int64_t row,
               float* out) {
  const T s = base.empty() ? score.value : score.value + base[0];
  if (m.labels.dtype() == DType::kString) {
    labels.Set(row, 0);
  } else {
    labels.SetNumber(row, s > 0);
  }
  *out = static_cast<float>(m.transform == PostTransform::kProbit ? Probit(s) : s);
}

// Two classes. Without a vote for the second one the score of the first tells both.
template <typename T>
void FinishTwo(const Model& m, std::span<const T> base, std::span<TreeScore<T>> scores, LabelOutput& labels,
               int64_t row, float* out) {
  TreeScore<T>&first = scores[0], &second = scores[1];
  if (base.size() == 2 && second.voted) {
    second.value = base[1] + first.value;
    first.value = -second.value;
  } else if (!base.empty()) {
    first.value += base[0];
  }
  const T deciding = second.voted ? second.value : first.voted ? first.value : T{0};
  if (m.one_score) {
    labels.Set(row, m.positive ? deciding > T{0.5} : deciding > 0);
  } else if (m.labels.dtype() == DType::kString) {
    labels.Set(row, deciding > 0);
  } else {
    labels.SetNumber(row, deciding > 0);
  }
  if (second.voted || base.size() == 2) {
    std::array<double, 2> both = {first.voted ? first.value : T{0}, second.voted ? second.value : T{0}};
    ApplyPostTransform(m.transform, both);
    return Write(both, out);
  }
  const bool complement = m.one_score && m.positive;
  Write(BinaryScores(m.transform, first.value, complement ? FirstScore::kComplement : FirstScore::kNegated), out);
}

template <typename T>
Status Classify(EvalContext& c, Model m) {
  const int64_t classes = m.labels.size();
  QUERN_ASSIGN_OR_RETURN(const FeatureRows<T> x, FeatureRows<T>::Make(c, 0));
  QUERN_ASSIGN_OR_RETURN(const TreeEnsemble<T> trees,
                         TreeEnsemble<T>::Read(c.node(), "class", classes, x.num_features()));
  QUERN_ASSIGN_OR_RETURN(const std::vector<T> base, ReadTreeNumbers<T>(c.node(), "base_values"));
  const size_t most = static_cast<size_t>(classes);
  if (!base.empty() && base.size() != most && !(classes == 2 && base.size() == 1)) {
    return c.Error("base_values has " + std::to_string(base.size()) + " values for " + std::to_string(classes) +
                   " classes");
  }
  const std::span<const int64_t> ids = ListAttribute<int64_t>(c.node(), "class_ids");
  QUERN_ASSIGN_OR_RETURN(const std::vector<T> weights, ReadTreeNumbers<T>(c.node(), "class_weights"));
  m.one_score =
      classes == 2 && !ids.empty() && std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id == ids[0]; });
  m.positive = std::none_of(weights.begin(), weights.end(), [](T w) { return w < 0; });
  QUERN_ASSIGN_OR_RETURN(LabelOutput labels, LabelOutput::Make(c, 0, m.labels, x.num_rows()));
  QUERN_ASSIGN_OR_RETURN(const Tensor z, c.AllocateOutput(1, DType::kF32, Shape{x.num_rows(), classes}));
  std::vector<TreeScore<T>> scores(most);
  std::vector<double> transformed(most);
  for (int64_t n = 0; n < x.num_rows(); ++n) {
    float* out = z.data<float>() + n * classes;
    trees.Score(x.row(n), TreeAggregate::kSum, scores);
    if (classes == 1) {
      FinishOne<T>(m, base, scores[0], labels, n, out);
    } else if (classes == 2) {
      FinishTwo<T>(m, base, scores, labels, n, out);
    } else {
      FinishMany<T>(m, base, scores, labels, n, transformed, out);
    }
  }
  return labels.Finish();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Model m, ReadModel(c.node()));
  const bool doubles =
      c.input(0).dtype() == DType::kF64 ||
      HoldsDoubles(c.node(), {"nodes_values_as_tensor", "class_weights_as_tensor", "base_values_as_tensor"});
  return doubles ? Classify<double>(c, m) : Classify<float>(c, m);
}

constexpr AttrSpec kAttributes1[] = {{"base_values", AttrType::kFloats},
                                     {"class_ids", AttrType::kInts},
                                     {"class_nodeids", AttrType::kInts},
                                     {"class_treeids", AttrType::kInts},
                                     {"class_weights", AttrType::kFloats},
                                     {"classlabels_int64s", AttrType::kInts},
                                     {"classlabels_strings", AttrType::kStrings},
                                     {"nodes_falsenodeids", AttrType::kInts},
                                     {"nodes_featureids", AttrType::kInts},
                                     {"nodes_hitrates", AttrType::kFloats},
                                     {"nodes_missing_value_tracks_true", AttrType::kInts},
                                     {"nodes_modes", AttrType::kStrings},
                                     {"nodes_nodeids", AttrType::kInts},
                                     {"nodes_treeids", AttrType::kInts},
                                     {"nodes_truenodeids", AttrType::kInts},
                                     {"nodes_values", AttrType::kFloats},
                                     kPostTransformAttribute};
constexpr AttrSpec kAttributes3[] = {{"base_values", AttrType::kFloats},
                                     {"base_values_as_tensor", AttrType::kTensor},
                                     {"class_ids", AttrType::kInts},
                                     {"class_nodeids", AttrType::kInts},
                                     {"class_treeids", AttrType::kInts},
                                     {"class_weights", AttrType::kFloats},
                                     {"class_weights_as_tensor", AttrType::kTensor},
                                     {"classlabels_int64s", AttrType::kInts},
                                     {"classlabels_strings", AttrType::kStrings},
                                     {"nodes_falsenodeids", AttrType::kInts},
                                     {"nodes_featureids", AttrType::kInts},
                                     {"nodes_hitrates", AttrType::kFloats},
                                     {"nodes_hitrates_as_tensor", AttrType::kTensor},
                                     {"nodes_missing_value_tracks_true", AttrType::kInts},
                                     {"nodes_modes", AttrType::kStrings},
                                     {"nodes_nodeids", AttrType::kInts},
                                     {"nodes_treeids", AttrType::kInts},
                                     {"nodes_truenodeids", AttrType::kInts},
                                     {"nodes_values", AttrType::kFloats},
                                     {"nodes_values_as_tensor", AttrType::kTensor},
                                     kPostTransformAttribute};
constexpr OpVersion kVersions[] = {{1, kClassifierInputs, kClassifierOutputs, kAttributes1, Infer, Evaluate},
                                   {3, kClassifierInputs, kClassifierOutputs, kAttributes3, Infer, Evaluate},
                                   {5, kClassifierInputs, kClassifierOutputs, kAttributes3, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlTreeEnsembleClassifier = {
    "ai.onnx.ml", "TreeEnsembleClassifier", kVersions, "Of two classes, labels and scores are those of onnxruntime."};

}  // namespace quern
