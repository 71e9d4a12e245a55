// ai.onnx.ml.Scaler: (x - offset) * scale, with one offset and scale for all features or one per feature.
#include <string>

#include "ops/common/ml_rows.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  c.SetOutputType(0, ValueType::Tensor(DType::kF32, c.input_shape(0)));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  const Tensor& x = c.input(0);
  const std::span<const float> offset = ListAttribute<float>(c.node(), "offset");
  const std::span<const float> scale = ListAttribute<float>(c.node(), "scale");
  const int64_t features = x.rank() == 0 ? 1 : x.shape().back();
  for (const auto& [name, list] : {std::pair("offset", offset), std::pair("scale", scale)}) {
    if (list.size() > 1 && static_cast<int64_t>(list.size()) != features) {
      return c.Error(std::string(name) + " has " + std::to_string(list.size()) + " values; 1 or " +
                     std::to_string(features) + ", one per feature, are needed");
    }
  }
  const auto at = [&](std::span<const float> list, int64_t i, double otherwise) {
    return list.empty() ? otherwise : double{list[static_cast<size_t>(list.size() == 1 ? 0 : i % features)]};
  };
  QUERN_ASSIGN_OR_RETURN(const Tensor y, c.AllocateOutput(0, DType::kF32, x.shape()));
  return DispatchType(FeatureTypeList{}, x.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const double v = static_cast<double>(x.data<T>()[i]);
      y.data<float>()[i] = static_cast<float>((v - at(offset, i, 0)) * at(scale, i, 1));
    }
    return OkStatus();
  });
}

constexpr AttrSpec kAttributes[] = {{"offset", AttrType::kFloats}, {"scale", AttrType::kFloats}};
constexpr OpVersion kVersions[] = {{1, kFeatureInputs, kFloatOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMlScaler = {"ai.onnx.ml", "Scaler", kVersions};

}  // namespace quern
