// ai.onnx.ml.TreeEnsembleRegressor: the votes of many trees for each target, aggregated (deprecated from version 5).
#include <vector>

#include "ops/common/ml_rows.h"
#include "ops/common/post_transform.h"
#include "ops/common/tree_ensemble.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const TreeTargets targets, TreeTargets::Read(c.node()));
  QUERN_ASSIGN_OR_RETURN(const RowDims dims, RowDimsOf(c, 0));
  c.SetOutputType(0, ValueType::Tensor(DType::kF32, Dims{dims.rows, Dim(targets.count)}));
  return OkStatus();
}

template <typename T>
Status Regress(EvalContext& c, const TreeTargets& targets) {
  QUERN_ASSIGN_OR_RETURN(const FeatureRows<T> x, FeatureRows<T>::Make(c, 0));
  QUERN_ASSIGN_OR_RETURN(const TreeEnsemble<T> trees,
                         TreeEnsemble<T>::Read(c.node(), "target", targets.count, x.num_features()));
  QUERN_ASSIGN_OR_RETURN(const std::vector<T> base, ReadTreeNumbers<T>(c.node(), "base_values"));
  return WriteTreeTargets<T>(c, trees, x, targets, base, DType::kF32);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const TreeTargets targets, TreeTargets::Read(c.node()));
  const bool doubles =
      c.input(0).dtype() == DType::kF64 ||
      HoldsDoubles(c.node(), {"nodes_values_as_tensor", "target_weights_as_tensor", "base_values_as_tensor"});
  return doubles ? Regress<double>(c, targets) : Regress<float>(c, targets);
}

constexpr AttrSpec kAttributes1[] = {{"aggregate_function", AttrType::kString, false, "SUM"},
                                     {"base_values", AttrType::kFloats},
                                     {"n_targets", AttrType::kInt},
                                     {"nodes_falsenodeids", AttrType::kInts},
                                     {"nodes_featureids", AttrType::kInts},
                                     {"nodes_hitrates", AttrType::kFloats},
                                     {"nodes_missing_value_tracks_true", AttrType::kInts},
                                     {"nodes_modes", AttrType::kStrings},
                                     {"nodes_nodeids", AttrType::kInts},
                                     {"nodes_treeids", AttrType::kInts},
                                     {"nodes_truenodeids", AttrType::kInts},
                                     {"nodes_values", AttrType::kFloats},
                                     kPostTransformAttribute,
                                     {"target_ids", AttrType::kInts},
                                     {"target_nodeids", AttrType::kInts},
                                     {"target_treeids", AttrType::kInts},
                                     {"target_weights", AttrType::kFloats}};
constexpr AttrSpec kAttributes3[] = {{"aggregate_function", AttrType::kString, false, "SUM"},
                                     {"base_values", AttrType::kFloats},
                                     {"base_values_as_tensor", AttrType::kTensor},
                                     {"n_targets", AttrType::kInt},
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
                                     kPostTransformAttribute,
                                     {"target_ids", AttrType::kInts},
                                     {"target_nodeids", AttrType::kInts},
                                     {"target_treeids", AttrType::kInts},
                                     {"target_weights", AttrType::kFloats},
                                     {"target_weights_as_tensor", AttrType::kTensor}};
constexpr OpVersion kVersions[] = {{1, kFeatureInputs, kFloatOutputs, kAttributes1, Infer, Evaluate},
                                   {3, kFeatureInputs, kFloatOutputs, kAttributes3, Infer, Evaluate},
                                   {5, kFeatureInputs, kFloatOutputs, kAttributes3, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlTreeEnsembleRegressor = {
    "ai.onnx.ml", "TreeEnsembleRegressor", kVersions,
    "post_transform also applies to a single target, which onnxruntime 1.31 leaves as it is."};

}  // namespace quern
