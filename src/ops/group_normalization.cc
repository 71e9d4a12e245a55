// GroupNormalization: normalization of groups of channels; scale and bias per group (18) or per channel (21).
#include <string>

#include "ops/common/normalization.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

constexpr int kPerChannelSince = 21;

Status Infer(InferContext& c) {
  const int64_t groups = c.node().GetInt("num_groups", 0);
  if (groups < 1) return c.Error("attribute 'num_groups' is " + std::to_string(groups) + "; at least 1 is needed");
  if (const std::optional<Dims> x = c.input_shape(0)) {
    if (x->size() < 2) return c.Error("the input has shape " + DimsToString(*x) + "; a batch and channels are needed");
    const Dim& channels = (*x)[1];
    if (channels.is_constant() && channels.value() % groups != 0) {
      return c.Error("'num_groups' = " + std::to_string(groups) + " does not divide the " + channels.ToString() +
                     " channels");
    }
    for (int i : {1, 2}) {
      QUERN_RETURN_IF_ERROR(CheckVector(c, i, c.node().opset() >= kPerChannelSince ? channels : Dim(groups)));
    }
  }
  return InferUnary(c);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Shape& shape = outputs.shape(0);
  const int64_t groups = c.node().GetInt("num_groups", 0), channels = shape[1], per_group = channels / groups;
  const int64_t plane = shape.num_elements(2, shape.rank());
  const bool per_channel = c.node().opset() >= kPerChannelSince;
  const double epsilon = c.node().GetFloat("epsilon", 1e-5f);
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> scale, ReadFloats<T>(c, 1));
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> bias, ReadFloats<T>(c, 2));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    for (int64_t ng = 0; ng < shape[0] * groups; ++ng) {
      const int64_t at = ng * per_group * plane;
      const Moments m = MomentsOf(x.data() + at, per_group * plane);
      const double inverse = 1.0 / std::sqrt(m.variance + epsilon);
      for (int64_t k = 0; k < per_group; ++k) {
        const int64_t parameter = per_channel ? ng % groups * per_group + k : ng % groups;
        for (int64_t i = at + k * plane; i < at + (k + 1) * plane; ++i) {
          y[i] = static_cast<T>((static_cast<double>(x[i]) - m.mean) * inverse * scale[parameter] + bias[parameter]);
        }
      }
    }
    y.Finish();
    return OkStatus();
  });
}

constexpr Param kInputs[] = {{"X", "T", kFloatTypes}, {"scale", "T", kFloatTypes}, {"bias", "T", kFloatTypes}};
constexpr Param kOutputs[] = {{"Y", "T", kFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"epsilon", AttrType::kFloat, false, "1e-05"},
                                    {"num_groups", AttrType::kInt, true},
                                    {"stash_type", AttrType::kInt, false, "1"}};
constexpr std::span<const AttrSpec> kAttributes18(kAttributes, 2);  // no stash_type yet
constexpr OpVersion kVersions[] = {{18, kInputs, kOutputs, kAttributes18, Infer, Evaluate},
                                   {21, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpGroupNormalization = {"", "GroupNormalization", kVersions};

}  // namespace quern
