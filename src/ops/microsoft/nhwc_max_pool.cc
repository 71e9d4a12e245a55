// com.microsoft.NhwcMaxPool: MaxPool of a quantized tensor whose channels come last.
#include <algorithm>
#include <limits>

#include "ops/common/integer_io.h"
#include "ops/common/plane_layout.h"
#include "ops/common/pool.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

Status Infer(InferContext& c) { return InferQuantizedPool(c, /*channels_last=*/true); }

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Shape in = ToChannelsSecond(c.input(0).shape()), out = ToChannelsSecond(outputs.shape(0));
  QUERN_ASSIGN_OR_RETURN(const Window3 w, MakePoolWindow(c, in, out));
  QUERN_ASSIGN_OR_RETURN(const Tensor y, outputs.Allocate(c, 0));
  const int64_t lowest = RangeOf(y.dtype()).low, channels = in[1];
  const std::vector<int32_t> x = WidenIntegers(c.input(0));
  for (int64_t item = 0; item < in[0] * channels; ++item) {
    const int64_t n = item / channels, channel = item % channels;
    int32_t best = 0;
    ForEachWindow(
        w, [&](const int64_t*) { best = static_cast<int32_t>(lowest); },
        [&](int64_t i0, int64_t i1, int64_t i2) {
          best = std::max(best, x[(n * w.in_size() + (i0 * w.in[1] + i1) * w.in[2] + i2) * channels + channel]);
        },
        [&](int64_t o) { StoreByte(y, (n * w.out_size() + o) * channels + channel, best); });
  }
  return OkStatus();
}

constexpr Param kInputs[] = {{"x", "T", kByteTypes}};
constexpr Param kOutputs[] = {{"y", "T", kByteTypes}};
constexpr AttrSpec kAttributes[] = {{"auto_pad", AttrType::kString, false, "NOTSET"},
                                    {"ceil_mode", AttrType::kInt, false, "0"},
                                    {"dilations", AttrType::kInts},
                                    {"kernel_shape", AttrType::kInts, true},
                                    {"pads", AttrType::kInts},
                                    {"strides", AttrType::kInts}};
constexpr OpVersion kVersions[] = {{1, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMicrosoftNhwcMaxPool = {"com.microsoft", "NhwcMaxPool", kVersions};

}  // namespace quern
