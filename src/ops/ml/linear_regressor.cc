// ai.onnx.ml.LinearRegressor: one linear function of the features per target, then a transform of the row of results.
#include <vector>

#include "ops/common/linear_model.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const LinearModel m, LinearModel::Read(c.node()));
  QUERN_ASSIGN_OR_RETURN(const int64_t targets, m.CountFunctions(c.node(), Dim::Unknown()));
  QUERN_ASSIGN_OR_RETURN(const RowDims dims, RowDimsOf(c, 0));
  QUERN_RETURN_IF_ERROR(CheckFeatures(c, dims.features, m.CountFeatures(targets)));
  c.SetOutputType(0, ValueType::Tensor(DType::kF32, Dims{dims.rows, Dim(targets)}));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const LinearModel m, LinearModel::Read(c.node()));
  QUERN_ASSIGN_OR_RETURN(const int64_t targets, m.CountFunctions(c.node(), Dim::Unknown()));
  QUERN_ASSIGN_OR_RETURN(const FeatureRows<double> x, FeatureRows<double>::Make(c, 0));
  QUERN_RETURN_IF_ERROR(CheckFeatures(c, x.num_features(), m.CountFeatures(targets)));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, DType::kF32, Shape{x.num_rows(), targets}));
  std::vector<double> scores(static_cast<size_t>(targets));
  for (int64_t n = 0; n < x.num_rows(); ++n) {
    for (int64_t t = 0; t < targets; ++t) scores[t] = LinearScore(x.row(n), m.coefficients, m.intercepts, t);
    ApplyPostTransform(m.transform, scores);
    for (int64_t t = 0; t < targets; ++t) y.data<float>()[n * targets + t] = static_cast<float>(scores[t]);
  }
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"coefficients", AttrType::kFloats},
                                    {"intercepts", AttrType::kFloats},
                                    kPostTransformAttribute,
                                    {"targets", AttrType::kInt, false, "1"}};
constexpr OpVersion kVersions[] = {{1, kFeatureInputs, kFloatOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlLinearRegressor = {"ai.onnx.ml", "LinearRegressor", kVersions};

}  // namespace quern
