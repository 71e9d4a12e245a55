// ai.onnx.ml.SVMRegressor: a weighted sum of kernels with support vectors, or of the features; one_class gives its
// sign.
#include <string>
#include <vector>

#include "ops/common/ml_rows.h"
#include "ops/common/post_transform.h"
#include "ops/common/svm.h"

namespace quern {
namespace {

struct Model {
  SvmKernel kernel;
  PostTransform transform = PostTransform::kNone;
  int64_t vectors = 0;  // 0: the coefficients weigh the features themselves
  int64_t features = 0;
  std::span<const float> coefficients;     // (vectors), or (features)
  std::span<const float> support_vectors;  // (vectors, features)
  double rho = 0;
  bool one_class = false;
};

Result<Model> ReadModel(const Node& node) {
  Model m;
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

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Model m, ReadModel(c.node()));
  QUERN_ASSIGN_OR_RETURN(const RowDims dims, RowDimsOf(c, 0));
  QUERN_RETURN_IF_ERROR(CheckFeatures(c, dims.features, m.features));
  c.SetOutputType(0, ValueType::Tensor(DType::kF32, Dims{dims.rows, Dim(1)}));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const Model m, ReadModel(c.node()));
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
    if (m.one_class) {
      score = score > 0 ? 1 : -1;
    } else {
      ApplyPostTransform(m.transform, std::span(&score, 1));
    }
    y.data<float>()[n] = static_cast<float>(score);
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
