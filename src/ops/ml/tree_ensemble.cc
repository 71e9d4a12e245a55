// ai.onnx.ml.TreeEnsemble: the leaves that many trees lead a row to, aggregated per target.
#include <vector>

#include "ops/common/ml_rows.h"
#include "ops/common/post_transform.h"
#include "ops/common/tree_ensemble.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const TreeTargets targets, TreeTargets::Read(c.node()));
  QUERN_ASSIGN_OR_RETURN(const RowDims dims, RowDimsOf(c, 0));
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), Dims{dims.rows, Dim(targets.count)}));
  return OkStatus();
}

template <typename T>
Status Run(EvalContext& c, const TreeTargets& targets) {
  QUERN_ASSIGN_OR_RETURN(const FeatureRows<T> x, FeatureRows<T>::Make(c, 0));
  QUERN_ASSIGN_OR_RETURN(const TreeEnsemble<T> trees,
                         TreeEnsemble<T>::Read5(c.node(), targets.count, x.num_features()));
  return WriteTreeTargets<T>(c, trees, x, targets, {}, c.input(0).dtype());
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const TreeTargets targets, TreeTargets::Read(c.node()));
  const bool doubles = c.input(0).dtype() == DType::kF64 ||
                       HoldsDoubles(c.node(), {"nodes_splits", "leaf_weights", "membership_values"});
  return doubles ? Run<double>(c, targets) : Run<float>(c, targets);
}

constexpr TypeSet kTypes = {DType::kF32, DType::kF64, DType::kF16};
constexpr Param kInputs[] = {{"X", "T", kTypes}}, kOutputs[] = {{"Y", "T", kTypes}};
constexpr AttrSpec kAttributes[] = {{"aggregate_function", AttrType::kInt, false, "1"},
                                    {"leaf_targetids", AttrType::kInts, true},
                                    {"leaf_weights", AttrType::kTensor, true},
                                    {"membership_values", AttrType::kTensor},
                                    {"n_targets", AttrType::kInt},
                                    {"nodes_falseleafs", AttrType::kInts, true},
                                    {"nodes_falsenodeids", AttrType::kInts, true},
                                    {"nodes_featureids", AttrType::kInts, true},
                                    {"nodes_hitrates", AttrType::kTensor},
                                    {"nodes_missing_value_tracks_true", AttrType::kInts},
                                    {"nodes_modes", AttrType::kTensor, true},
                                    {"nodes_splits", AttrType::kTensor, true},
                                    {"nodes_trueleafs", AttrType::kInts, true},
                                    {"nodes_truenodeids", AttrType::kInts, true},
                                    {"post_transform", AttrType::kInt, false, "0"},
                                    {"tree_roots", AttrType::kInts, true}};
constexpr OpVersion kVersions[] = {{5, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlTreeEnsemble = {
    "ai.onnx.ml", "TreeEnsemble", kVersions,
    "post_transform 1 is SOFTMAX and 2 LOGISTIC, as specified; onnxruntime 1.31 has them the other way round."};

}  // namespace quern
