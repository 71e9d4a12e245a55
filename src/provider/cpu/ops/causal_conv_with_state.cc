// CausalConvWithState of float32, that of ai.onnx and that of com.microsoft: each channel of the past and the new
// elements after it, weighted by a few taps.
#include <algorithm>
#include <vector>

#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

enum Input { kX, kWeight, kBias, kPast };

struct Sizes {
  int64_t batch = 0, channels = 0, length = 0;
  int64_t taps = 0, dilation = 1, kept = 0;  // of the state: (taps - 1) * dilation
};

struct Operands {
  const float *x, *weight, *bias, *past;  // bias and past may be null
  float *y, *present;
};

// Bias (or null: none) and activation of n results; each has a bias of its own where bias_step is 1.
void Finish(const ukernel::VectorKernel& row, const float* bias, size_t bias_step, bool activates, size_t n, float* y) {
  if (bias) row.binary({.kind = BinaryKind::kAdd, .n = n, .x = y, .z = bias, .y = y, .z_step = bias_step});
  if (activates) row.unary({.kind = UnaryKind::kSilu, .n = n, .x = y, .y = y, .a = 1});
}

// Sums of one channel of one sample, whose elements are neighbours: its past, or zeros, then x.
void ConvolveLine(const ukernel::VectorKernel& row, const Sizes& s, std::span<const ptrdiff_t> offsets,
                  const Operands& o) {
  // The first results see the past; they are few.
  const int64_t first = std::min(s.kept, s.length);
  for (int64_t t = 0; t < first; ++t) {
    float sum = 0;
    int64_t k = 0, from = t;
    for (; from < s.kept; ++k, from += s.dilation) {
      if (o.past) sum += o.weight[k] * o.past[from];
    }
    for (; k < s.taps; ++k, from += s.dilation) sum += o.weight[k] * o.x[from - s.kept];
    o.y[t] = o.bias ? sum + *o.bias : sum;
  }
  for (int64_t t = first; t < s.length; t += kRowChunk) {
    const auto n = static_cast<size_t>(std::min(kRowChunk, s.length - t));
    row.blend({.taps = static_cast<size_t>(s.taps),
               .n = n,
               .x = o.x + t - s.kept,
               .offsets = offsets.data(),
               .weights = o.weight,
               .y = o.y + t});
    Finish(row, o.bias, 0, false, n, o.y + t);
  }
  const int64_t from_past = s.kept - first;
  for (int64_t t = 0; t < from_past; ++t) o.present[t] = o.past ? o.past[t + s.length] : 0.0f;
  for (int64_t t = from_past; t < s.kept; ++t) o.present[t] = o.x[s.length - s.kept + t];
}

// Channels [begin, begin + n), at most kRowChunk, of element t of one sample: rows of neighbouring channels. The
// weights are [taps, channels].
void ConvolveElement(const ukernel::VectorKernel& row, const Sizes& s, const Operands& o, int64_t t, int64_t begin,
                     int64_t n, bool activates) {
  const auto count = static_cast<size_t>(n);
  float sum[kRowChunk], product[kRowChunk];
  std::fill_n(sum, n, 0.0f);
  for (int64_t k = 0; k < s.taps; ++k) {
    const int64_t from = t + k * s.dilation - s.kept;
    if (from < 0 && !o.past) continue;
    const float* x = (from >= 0 ? o.x + from * s.channels : o.past + (from + s.kept) * s.channels) + begin;
    row.binary({.kind = BinaryKind::kMul, .n = count, .x = x, .z = o.weight + k * s.channels + begin, .y = product});
    row.binary({.kind = BinaryKind::kAdd, .n = count, .x = sum, .z = product, .y = sum});
  }
  Finish(row, o.bias ? o.bias + begin : nullptr, 1, activates, count, sum);
  std::copy_n(sum, n, o.y + t * s.channels + begin);
}

class CausalConvKernel final : public CpuKernel {
 public:
  CausalConvKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)),
        dilation_(node.GetInt("dilation", 1)),
        channels_last_(node.GetInt("channels_last", 0) == 1),
        activates_(node.GetString("activation", "none") != "none") {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[kX].shape;
    const Shape& weight = context.inputs[kWeight].shape;
    const Sizes s{.batch = shape[0],
                  .channels = weight[0],
                  .length = shape[channels_last_ ? 1 : 2],
                  .taps = weight[2],
                  .dilation = dilation_,
                  .kept = (weight[2] - 1) * dilation_};
    if (s.batch * s.channels == 0) return NothingToDo();
    return channels_last_ ? BindChannelsLast(context, s) : BindChannelsFirst(context, s);
  }
  KernelDescription Describe() const override {
    return Described(*row_, channels_last_ ? "taps of rows of channels" : "taps of each channel's elements");
  }
  bool sums_products() const override { return true; }

 private:
  static Operands Take(const StepContext& c, bool has_bias, bool has_past) {
    const auto floats = [&](int i) { return static_cast<const float*>(c.inputs[i]); };
    return {floats(kX),
            floats(kWeight),
            has_bias ? floats(kBias) : nullptr,
            has_past ? floats(kPast) : nullptr,
            static_cast<float*>(c.outputs[0]),
            static_cast<float*>(c.outputs[1])};
  }

  Result<std::unique_ptr<CpuStep>> BindChannelsFirst(const BindContext& context, const Sizes& s) const {
    std::vector<ptrdiff_t> offsets;
    for (int64_t k = 0; k < s.taps; ++k) offsets.push_back(static_cast<ptrdiff_t>(k * s.dilation));
    const bool has_bias = context.has_input(kBias), has_past = context.has_input(kPast);
    return MakeStep([=, row = row_, activates = activates_, offsets = std::move(offsets)](const StepContext& c) {
      const Operands all = Take(c, has_bias, has_past);
      // Lines whose results are activated at once.
      const int64_t together = std::max<int64_t>(1, kRowChunk / std::max<int64_t>(1, s.length));
      const int64_t work = (s.length + s.kept) * s.taps;
      const int64_t grain = std::max(together, kCheapGrain / std::max<int64_t>(1, work));
      return ForRange(c, s.batch * s.channels, grain, [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; line += together) {
          const int64_t lines = std::min(together, end - line);
          for (int64_t l = line; l < line + lines; ++l) {
            const int64_t channel = l % s.channels;
            const Operands o{all.x + l * s.length,
                             all.weight + channel * s.taps,
                             all.bias ? all.bias + channel : nullptr,
                             all.past ? all.past + l * s.kept : nullptr,
                             all.y + l * s.length,
                             all.present + l * s.kept};
            ConvolveLine(*row, s, offsets, o);
          }
          Finish(*row, nullptr, 0, activates, static_cast<size_t>(lines * s.length), all.y + line * s.length);
        }
      });
    });
  }

  Result<std::unique_ptr<CpuStep>> BindChannelsLast(const BindContext& context, const Sizes& s) const {
    const bool has_bias = context.has_input(kBias), has_past = context.has_input(kPast);
    const int64_t chunks = (s.channels + kRowChunk - 1) / kRowChunk;
    auto run = [=, row = row_, activates = activates_](const StepContext& c) {
      Operands all = Take(c, has_bias, has_past);
      row->transpose({.rows = static_cast<size_t>(s.taps),
                      .cols = static_cast<size_t>(s.channels),
                      .x = all.weight,
                      .x_col = static_cast<ptrdiff_t>(s.taps),
                      .y = c.scratch,
                      .y_row = static_cast<ptrdiff_t>(s.channels)});
      all.weight = static_cast<const float*>(c.scratch);
      const auto sample = [&](int64_t b) {
        return Operands{all.x + b * s.length * s.channels,
                        all.weight,
                        all.bias,
                        all.past ? all.past + b * s.kept * s.channels : nullptr,
                        all.y + b * s.length * s.channels,
                        all.present + b * s.kept * s.channels};
      };
      for (int64_t b = 0; b < s.batch; ++b) {  // the last elements of the past and x together
        const Operands o = sample(b);
        const int64_t from_past = std::max<int64_t>(0, s.kept - s.length) * s.channels;
        if (o.past && from_past > 0) std::copy_n(o.past + s.length * s.channels, from_past, o.present);
        if (!o.past) std::fill_n(o.present, from_past, 0.0f);
        const int64_t rest = s.kept * s.channels - from_past;
        std::copy_n(o.x + s.length * s.channels - rest, rest, o.present + from_past);
      }
      const int64_t work = std::min(s.channels, kRowChunk) * s.taps;
      return ForItems(c, s.batch * s.length * chunks, work, kCheapGrain, [&](int64_t item) {
        const int64_t element = item / chunks, begin = item % chunks * kRowChunk;
        const int64_t n = std::min(kRowChunk, s.channels - begin);
        ConvolveElement(*row, s, sample(element / s.length), element % s.length, begin, n, activates);
      });
    };
    return MakeStep(std::move(run), static_cast<size_t>(s.taps * s.channels) * sizeof(float));
  }

  const ukernel::VectorKernel* row_;
  int64_t dilation_;
  bool channels_last_, activates_;
};

std::string Reject(const Node& node, const CpuConfig&) { return RejectUnlessType(node.input(kX), {DType::kF32}); }
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new CausalConvKernel(node, *context.config));
}

constexpr CpuOp kOps[] = {
    {"", "CausalConvWithState", Reject, Compile},
    {"com.microsoft", "CausalConvWithState", Reject, Compile},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsCausalConvWithState = kOps;

}  // namespace quern::cpu
