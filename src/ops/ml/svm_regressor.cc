// ai.onnx.ml.SVMRegressor: a weighted sum of kernels with support vectors, or of the features; one_class gives its
// sign.
#include "ops/common/ml_rows.h"
#include "ops/common/post_transform.h"
#include "ops/common/svm.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const SvmRegressor m, SvmRegressor::Read(c.node()));
  QUERN_ASSIGN_OR_RETURN(const RowDims dims, RowDimsOf(c, 0));
  QUERN_RETURN_IF_ERROR(CheckFeatures(c, dims.features, m.features));
  c.SetOutputType(0, ValueType::Tensor(DType::kF32, Dims{dims.rows, Dim(1)}));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const SvmRegressor m, SvmRegressor::Read(c.node()));
  QUERN_ASSIGN_OR_RETURN(const FeatureRows<double> x, FeatureRows<double>::Make(c, 0));
  QUERN_RETURN_IF_ERROR(CheckFeatures(c, x.num_features(), m.features));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, DType::kF32, Shape{x.num_rows(), 1}));
  for (int64_t n = 0; n < x.num_rows(); ++n) {
    double score = m.rho;
    if (m.vectors == 0) {
      score += LinearScore(x.row(n), m.coefficients, {}, 0);
    }
    for (int64_t v = 0; v < m.vectors; ++v) {
      score += double{m.coefficients[v]} * m.kernel(x.row(n), m.support_vectors.subspan(v * m.features, m.features));
    }
    y.data<float>()[n] = m.Finish(score);
  }
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"coefficients", AttrType::kFloats},
                                    {"kernel_params", AttrType::kFloats},
                                    {"kernel_type", AttrType::kString, false, "LINEAR"},
                                    {"n_supports", AttrType::kInt, false, "0"},
                                    {"one_class", AttrType::kInt, false, "0"},
                                    kPostTransformAttribute,
                                    {"rho", AttrType::kFloats},
                                    {"support_vectors", AttrType::kFloats}};
constexpr OpVersion kVersions[] = {{1, kFeatureInputs, kFloatOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlSvmRegressor = {"ai.onnx.ml", "SVMRegressor", kVersions};

}  // namespace quern
