// ImageScaler: images [N, C, H, W] times a number, plus the bias of their channel.
#include <vector>

#include "ops/common/float_io.h"
#include "ops/common/infer_common.h"
#include "ops/common/legacy_experimental.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0);
  const auto* bias = c.node().FindAttribute<std::vector<float>>("bias");
  if (x && x->size() != 4) {
    return c.Error("input '" + c.node().input(0)->name() + "' has shape " + DimsToString(*x) +
                   "; [N, C, H, W] is needed");
  }
  if (x && bias && (*x)[1].is_constant() && (*x)[1].value() != static_cast<int64_t>(bias->size())) {
    return c.Error("the bias has " + std::to_string(bias->size()) + " elements for " + (*x)[1].ToString() +
                   " channels");
  }
  return InferUnary(c);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const double scale = c.node().GetFloat("scale", 1.0f);
  const auto* bias = c.node().FindAttribute<std::vector<float>>("bias");
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    const int64_t channels = x.shape()[1], plane = x.shape().num_elements(2, 4);
    for (int64_t i = 0; i < y.num_elements(); ++i) {
      const double shift = bias != nullptr ? static_cast<double>((*bias)[i / plane % channels]) : 0.0;
      y[i] = static_cast<T>(static_cast<double>(x[i]) * scale + shift);
    }
    y.Finish();
    return OkStatus();
  });
}

constexpr AttrSpec kAttributes[] = {{"bias", AttrType::kFloats}, {"scale", AttrType::kFloat, false, "1.0"}};
constexpr OpVersion kVersions[] = {{1, kExperimentalInput, kExperimentalOutput, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpImageScaler = {"", "ImageScaler", kVersions, kExperimentalNotes};

}  // namespace quern
