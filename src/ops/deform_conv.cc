// DeformConv: a convolution that reads the input at positions moved by learned offsets, linearly interpolated, zeros
// outside; optionally times a mask.
#include <string>
#include <vector>

#include "ops/common/convolution.h"
#include "ops/common/float_io.h"
#include "ops/common/indices.h"
#include "ops/common/interpolation.h"
#include "ops/common/type_sets.h"

namespace quern {
namespace {

constexpr int kOffset = 2, kBias = 3, kMask = 4;

Status Infer(InferContext& c) {
  const int64_t groups = c.node().GetInt("offset_group", 1);
  if (groups < 1) return c.Error("attribute 'offset_group' is " + std::to_string(groups) + "; at least 1 is needed");
  const std::optional<Dims> x = c.input_shape(0);
  if (x && x->size() >= 2 && (*x)[1].is_constant() && (*x)[1].value() % groups != 0) {
    return c.Error("the input has " + (*x)[1].ToString() +
                   " channels, which 'offset_group' = " + std::to_string(groups) + " does not divide");
  }
  return InferConv(c, {.x = 0, .weight = 1, .bias = kBias}, c.input_dtype(0));
}

// An error unless input i is [N, channels, extents of the output...].
Status CheckPerPosition(const EvalContext& c, int i, int64_t channels, const Shape& output) {
  Shape needed = output;
  needed[1] = channels;
  if (c.input(i).shape() == needed) return OkStatus();
  return c.Error("input '" + c.node().input(i)->name() + "' has shape " + c.input(i).shape().ToString() + "; " +
                 needed.ToString() + " is needed");
}

template <typename T>
Status Convolve(EvalContext& c, const InferredOutputs& outputs) {
  QUERN_ASSIGN_OR_RETURN(const FloatInput<T> x, ReadFloats<T>(c, 0));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<T> weight, ReadFloats<T>(c, 1));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<T> offset, ReadFloats<T>(c, kOffset));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<T> bias, ReadFloats<T>(c, kBias));
  QUERN_ASSIGN_OR_RETURN(const FloatInput<T> mask, ReadFloats<T>(c, kMask));
  const Shape &in = x.shape(), &out = outputs.shape(0);
  const int rank = in.rank() - 2;
  Shape kernel, strides, positions;
  Dims kernel_dims;
  for (int d = 2; d < in.rank(); ++d) {
    kernel.push_back(weight.shape()[d]);
    kernel_dims.emplace_back(weight.shape()[d]);
    strides.push_back(in.num_elements(d + 1, in.rank()));
    positions.push_back(out[d]);
  }
  QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(c.node(), rank, kernel_dims));
  const int64_t taps_per_channel = kernel.num_elements(), offset_groups = c.node().GetInt("offset_group", 1);
  const std::optional<int64_t> group_taps = CheckedMul(taps_per_channel, offset_groups);
  const std::optional<int64_t> offset_channels =
      group_taps ? CheckedMul(*group_taps, static_cast<int64_t>(rank)) : std::nullopt;
  if (!offset_channels) return c.Error("the kernel " + kernel.ToString() + " is too large");
  QUERN_RETURN_IF_ERROR(CheckPerPosition(c, kOffset, *offset_channels, out));
  if (mask) QUERN_RETURN_IF_ERROR(CheckPerPosition(c, kMask, *group_taps, out));
  QUERN_ASSIGN_OR_RETURN(FloatOutput<T> y, WriteFloats<T>(c, outputs, 0));
  if (y.num_elements() == 0) return OkStatus();

  const int64_t channels = in[1], out_channels = out[1], plane = positions.num_elements();
  const int64_t in_plane = in.num_elements(2, in.rank());
  const int64_t group_in = weight.shape()[1], group_out = out_channels / c.node().GetInt("group", 1);
  // What the kernel reads at one position: [channel, tap].
  std::vector<double> column(static_cast<size_t>(channels * taps_per_channel));
  std::vector<AxisTaps> taps(static_cast<size_t>(rank));
  for (int64_t n = 0; n < out[0]; ++n) {
    IndexCounter at(positions);
    for (int64_t o = 0; o < plane; ++o, at.Next()) {
      IndexCounter tap(kernel);
      for (int64_t k = 0; k < taps_per_channel; ++k, tap.Next()) {
        for (int64_t g = 0; g < offset_groups; ++g) {
          const int64_t sample = (n * offset_groups + g) * taps_per_channel + k;
          for (int d = 0; d < rank; ++d) {
            const int64_t start = at.index()[d] * window.strides[d] - window.pads_begin[d];
            const double position = static_cast<double>(start + tap.index()[d] * window.dilations[d]) +
                                    static_cast<double>(offset[(sample * rank + d) * plane + o]);
            taps[d] = LinearTapsInside(position, in[2 + d]);
          }
          const double factor = mask ? static_cast<double>(mask[sample * plane + o]) : 1.0;
          const int64_t first = g * (channels / offset_groups), last = first + channels / offset_groups;
          for (int64_t channel = first; channel < last; ++channel) {
            const T* from = x.data() + (n * channels + channel) * in_plane;
            const auto element = [&](int64_t i) { return static_cast<double>(from[i]); };
            column[channel * taps_per_channel + k] = factor * SumOfTaps(taps.data(), strides, 0.0, element);
          }
        }
      }
      for (int64_t m = 0; m < out_channels; ++m) {
        const T* row = weight.data() + m * group_in * taps_per_channel;
        const double* read = column.data() + m / group_out * group_in * taps_per_channel;
        double sum = bias ? static_cast<double>(bias[m]) : 0.0;
        for (int64_t i = 0; i < group_in * taps_per_channel; ++i) sum += static_cast<double>(row[i]) * read[i];
        y[(n * out_channels + m) * plane + o] = static_cast<T>(sum);
      }
    }
  }
  y.Finish();
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  return WithComputeType(c, outputs.dtype(0), [&]<typename T>(T) { return Convolve<T>(c, outputs); });
}

constexpr AttrSpec kAttributes[] = {{"dilations", AttrType::kInts},    {"group", AttrType::kInt, false, "1"},
                                    {"kernel_shape", AttrType::kInts}, {"offset_group", AttrType::kInt, false, "1"},
                                    {"pads", AttrType::kInts},         {"strides", AttrType::kInts}};
constexpr Param kInputs19[] = {{"X", "T", kOldFloatTypes},
                               {"W", "T", kOldFloatTypes},
                               {"offset", "T", kOldFloatTypes},
                               {"B", "T", kOldFloatTypes, Arity::kOptional},
                               {"mask", "T", kOldFloatTypes, Arity::kOptional}};
constexpr Param kOutputs19[] = {{"Y", "T", kOldFloatTypes}};
constexpr Param kInputs22[] = {{"X", "T", kFloatTypes},
                               {"W", "T", kFloatTypes},
                               {"offset", "T", kFloatTypes},
                               {"B", "T", kFloatTypes, Arity::kOptional},
                               {"mask", "T", kFloatTypes, Arity::kOptional}};
constexpr Param kOutputs22[] = {{"Y", "T", kFloatTypes}};
constexpr OpVersion kVersions[] = {{19, kInputs19, kOutputs19, kAttributes, Infer, Evaluate},
                                   {22, kInputs22, kOutputs22, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpDeformConv = {"", "DeformConv", kVersions};

}  // namespace quern
