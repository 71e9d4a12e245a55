// InstanceNormalization: normalization of each channel plane of each sample.
#include "ops/common/normalization.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferPerChannel(c, 2); }

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Shape& shape = outputs.shape(0);
  if (shape.rank() < 2) return c.Error("the input has shape " + shape.ToString() + "; a batch and channels are needed");
  const int64_t channels = shape[1], plane = shape.num_elements(2, shape.rank());
  const double epsilon = c.node().GetFloat("epsilon", 1e-5f);
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> scale, ReadFloats<T>(c, 1));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> bias, ReadFloats<T>(c, 2));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    for (int64_t p = 0; p < shape[0] * channels; ++p) {
      const T* in = x.data() + p * plane;
      const Moments m = MomentsOf(in, plane);
      const double factor = scale[p % channels] / std::sqrt(m.variance + epsilon);
      for (int64_t i = 0; i < plane; ++i) {
        y[p * plane + i] = static_cast<T>((static_cast<double>(in[i]) - m.mean) * factor + bias[p % channels]);
      }
    }
    y.Finish();
    return OkStatus();
  });
}

constexpr Param kInputs6[] = {
    {"input", "T", kOldFloatTypes}, {"scale", "T", kOldFloatTypes}, {"B", "T", kOldFloatTypes}};
constexpr Param kOutputs6[] = {{"output", "T", kOldFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"epsilon", AttrType::kFloat, false, "1e-05"}};
constexpr Param kInputs22[] = {{"input", "T", kFloatTypes}, {"scale", "T", kFloatTypes}, {"B", "T", kFloatTypes}};
constexpr Param kOutputs22[] = {{"output", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{6, kInputs6, kOutputs6, kAttributes, Infer, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpInstanceNormalization = {"", "InstanceNormalization", kVersions};

}  // namespace quern
