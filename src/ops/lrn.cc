// LRN: x over (bias + alpha / size * sum of squares over `size` neighbouring channels) to the power of beta.
#include <algorithm>

#include "ops/common/normalization.h"
#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  if (c.node().GetInt("size", 0) < 1) return c.Error("attribute 'size' must be at least 1");
  return InferPerChannel(c, 0);
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Shape& shape = outputs.shape(0);
  if (shape.rank() < 2) return c.Error("the input has shape " + shape.ToString() + "; a batch and channels are needed");
  const int64_t size = c.node().GetInt("size", 1), channels = shape[1], plane = shape.num_elements(2, shape.rank());
  const int64_t before = (size - 1) / 2, after = size - 1 - before;
  const double alpha = c.node().GetFloat("alpha", 1e-4f), beta = c.node().GetFloat("beta", 0.75f);
  const double bias = c.node().GetFloat("bias", 1.0f);
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) -> Status {
    QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
    QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
    for (int64_t n = 0; n < shape[0]; ++n) {
      for (int64_t ch = 0; ch < channels; ++ch) {
        const int64_t first = std::max<int64_t>(0, ch - before), last = std::min(channels - 1, ch + after);
        for (int64_t i = 0; i < plane; ++i) {
          double squares = 0;
          for (int64_t k = first; k <= last; ++k) {
            const double v = static_cast<double>(x[(n * channels + k) * plane + i]);
            squares += v * v;
          }
          const int64_t at = (n * channels + ch) * plane + i;
          y[at] = static_cast<T>(x[at] / std::pow(bias + alpha / static_cast<double>(size) * squares, beta));
        }
      }
    }
    y.Finish();
    return OkStatus();
  });
}

constexpr Param kInputs1[] = {{"X", "T", kOldFloatTypes}};
constexpr Param kOutputs1[] = {{"Y", "T", kOldFloatTypes}};
constexpr AttrSpec kAttributes[] = {{"alpha", AttrType::kFloat, false, "0.0001"},
                                    {"beta", AttrType::kFloat, false, "0.75"},
                                    {"bias", AttrType::kFloat, false, "1"},
                                    {"size", AttrType::kInt, true}};
constexpr Param kInputs13[] = {{"X", "T", kFloatTypes}};
constexpr Param kOutputs13[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{1, kInputs1, kOutputs1, kAttributes, Infer, Evaluate},
                                   {13, kInputs13, kOutputs13, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpLrn = {"", "LRN", kVersions};

}  // namespace quern
