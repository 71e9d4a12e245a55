// ai.onnx.ml.Binarizer: 1 where an element is above the threshold, else 0.
#include "ops/common/infer_common.h"
#include "ops/common/ml_rows.h"

namespace quern {
namespace {

Status Evaluate(EvalContext& c) {
  const Tensor& x = c.input(0);
  const double threshold = c.node().GetFloat("threshold", 0.0f);
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, x.dtype(), x.shape()));
  return DispatchType(FeatureTypeList{}, x.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      y.data<T>()[i] = static_cast<T>(static_cast<double>(x.data<T>()[i]) > threshold);
    }
    return OkStatus();
  });
}

constexpr Param kOutputs[] = {{"Y", "T", kFeatureTypes}};
constexpr AttrSpec kAttributes[] = {{"threshold", AttrType::kFloat, false, "0"}};
constexpr OpVersion kVersions[] = {{1, kFeatureInputs, kOutputs, kAttributes, InferUnary, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlBinarizer = {"ai.onnx.ml", "Binarizer", kVersions};

}  // namespace quern
