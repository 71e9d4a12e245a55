// ai.onnx.ml.TreeEnsembleClassifier: the votes of many trees for each class, and the class that wins (deprecated from
// version 5). Where the specification is silent (two classes), labels and scores are onnxruntime's.
#include <vector>

#include "ops/common/tree_classes.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const TreeClasses m, TreeClasses::ReadLabels(c.node()));
  QUERN_ASSIGN_OR_RETURN(const RowDims dims, RowDimsOf(c, 0));
  SetClassifierTypes(c, dims.rows, m.labels, m.labels.size());
  return OkStatus();
}

template <typename T>
Status Classify(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const TreeClassifier<T> m, TreeClassifier<T>::Read(c.node()));
  const int64_t classes = m.classes.labels.size();
  QUERN_ASSIGN_OR_RETURN(const FeatureRows<T> x, FeatureRows<T>::Make(c, 0));
  QUERN_ASSIGN_OR_RETURN(const TreeEnsemble<T> trees,
                         TreeEnsemble<T>::Read(c.node(), "class", classes, x.num_features()));
  QUERN_ASSIGN_OR_RETURN(LabelOutput labels, LabelOutput::Make(c, 0, m.classes.labels, x.num_rows()));
  QUERN_ASSIGN_OR_RETURN(const Tensor z, c.AllocateOutput(1, DType::kF32, Shape{x.num_rows(), classes}));
  std::vector<TreeScore<T>> scores(static_cast<size_t>(classes));
  std::vector<double> scratch(scores.size());
  for (int64_t n = 0; n < x.num_rows(); ++n) {
    trees.Score(x.row(n), TreeAggregate::kSum, scores);
    const TreeLabel label = m.Finish(scores, scratch, z.data<float>() + n * classes);
    if (label.is_number) {
      labels.SetNumber(n, label.value);
    } else {
      labels.Set(n, label.value);
    }
  }
  return labels.Finish();
}

Status Evaluate(EvalContext& c) {
  return TreeClassifierNeedsDoubles(c.node(), c.input(0).dtype()) ? Classify<double>(c) : Classify<float>(c);
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
