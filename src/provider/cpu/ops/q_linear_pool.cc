// QLinearAveragePool and QLinearGlobalAveragePool of com.microsoft: sums of bytes, their mean rounded once.
#include "ops/common/plane_layout.h"
#include "ops/common/pool.h"
#include "provider/cpu/common/byte_tables.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {
// One mean for each output of one plane: windows, or the whole plane.
struct Planes {
  PlaneLayout in, out;
  std::optional<Window3> window;
  bool include_pad = false;
};

constexpr int64_t kChannels = 256;  // of one task, where channels come last

// One run.
struct Pool {
  const Planes& p;
  const ukernel::AffineKernel* row;
  ByteQuantization from, to;
  const uint8_t* x;
  uint8_t* y;

  // Signed bytes count from -128.
  uint8_t flip() const { return from.is_signed ? 0x80 : 0; }
  uint8_t Mean(int64_t sum, int64_t count, double divisor) const {
    const int64_t numbers = sum - count * (from.zero_point + flip());
    return to.Store(divisor == 0 ? 0.0 : from.scale * static_cast<double>(numbers) / divisor);
  }

  // One output pixel of the channels from `channel` on.
  void MeanOfChannels(int64_t n, int64_t pixel, int64_t channel) const {
    const int64_t channels = p.in.channels;
    ukernel::AverageBytesArgs args{.n = static_cast<size_t>(std::min(kChannels, channels - channel)),
                                   .x = x + p.in.At(n, channel, 0),
                                   .y = y + p.out.At(n, channel, pixel),
                                   .x_scale = from,
                                   .y_scale = to};
    args.strides[2] = channels;
    if (!p.window) {
      args.taps[2] = static_cast<size_t>(p.in.plane);
    } else {
      const Window3& w = *p.window;
      const int64_t o[3] = {pixel / (w.out[1] * w.out[2]), pixel / w.out[2] % w.out[1], pixel % w.out[2]};
      const int64_t line[3] = {w.in[1] * w.in[2], w.in[2], 1};
      for (int d = 0; d < 3; ++d) {
        const KernelRange r = ValidKernel(w, d, o[d]);
        args.taps[d] = static_cast<size_t>(r.last - r.first);
        args.strides[d] = w.dilation[d] * line[d] * channels;
        if (args.taps[d] > 0) args.x += r.input_at_first * line[d] * channels;
      }
      if (p.include_pad) args.divisor = AllTaps(w);
    }
    if (!p.window || !p.include_pad) args.divisor = static_cast<double>(args.taps[0] * args.taps[1] * args.taps[2]);
    row->average(args);
  }

  // All output pixels of one channel, whose plane is contiguous.
  void MeansOfPlane(int64_t n, int64_t channel) const {
    const uint8_t* plane = x + p.in.At(n, channel, 0);
    uint8_t* out = y + p.out.At(n, channel, 0);
    if (!p.window) {
      constexpr int64_t kFew = 65536;  // whose sums fit 32 bits
      const uint8_t bits = flip();
      int64_t sum = 0;
      for (int64_t first = 0; first < p.in.plane; first += kFew) {
        uint32_t part = 0;
        for (int64_t i = first; i < std::min(p.in.plane, first + kFew); ++i)
          part += static_cast<uint8_t>(plane[i] ^ bits);
        sum += part;
      }
      *out = Mean(sum, p.in.plane, static_cast<double>(p.in.plane));
      return;
    }
    const Window3& w = *p.window;
    const uint8_t bits = flip();
    int64_t sum = 0, count = 0;
    const double all = AllTaps(w);
    ForEachWindow(
        w, [&](const int64_t*) { sum = count = 0; },
        [&](int64_t i0, int64_t i1, int64_t i2) {
          sum += static_cast<uint8_t>(plane[(i0 * w.in[1] + i1) * w.in[2] + i2] ^ bits);
          ++count;
        },
        [&](int64_t o) { out[o] = Mean(sum, count, p.include_pad ? all : static_cast<double>(count)); });
  }
};

class PoolKernel final : public CpuKernel {
 public:
  PoolKernel(const Node& node, const CpuConfig& config)
      : node_(node), row_(AffineRowFor(config)), global_(node.op_type() == "QLinearGlobalAveragePool") {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &x = context.inputs[0].shape, &y = context.outputs[0].shape;
    if (y.num_elements() == 0) return NothingToDo();
    Planes p{.in = PlaneLayout::Of(node_, x), .out = PlaneLayout::Of(node_, y), .window = {}};
    p.include_pad = node_.GetInt("count_include_pad", 0) != 0;
    if (global_) {
      if (p.in.plane == 0) return InvalidArgument("the input has no elements to pool");
    } else {
      QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(node_, x.rank() - 2, std::nullopt));
      QUERN_ASSIGN_OR_RETURN(p.window, MakeWindow3(node_, window, ChannelsSecond(node_, x), ChannelsSecond(node_, y)));
    }
    const int64_t taps = p.window ? p.window->reached_size() : p.in.plane;
    return MakeStep([=, row = row_, type = context.outputs[0].dtype](const StepContext& c) {
      const Pool pool{p,
                      row,
                      ByteQuantization::Read(c.inputs[1], c.inputs[2], type),
                      ByteQuantization::Read(c.inputs[3], c.inputs[4], type),
                      static_cast<const uint8_t*>(c.inputs[0]),
                      static_cast<uint8_t*>(c.outputs[0])};
      const int64_t channels = p.in.channels, pixels = p.out.plane;
      if (p.in.channels_last) {
        const int64_t parts = (channels + kChannels - 1) / kChannels;
        return ForItems(c, p.in.batch * pixels * parts, taps * std::min(kChannels, channels) / 4, kCheapGrain,
                        [&](int64_t item) {
                          pool.MeanOfChannels(item / parts / pixels, item / parts % pixels, item % parts * kChannels);
                        });
      }
      return ForItems(c, p.in.batch * channels, taps * pixels, kCostlyGrain,
                      [&](int64_t item) { pool.MeansOfPlane(item / channels, item % channels); });
    });
  }
  KernelDescription Describe() const override { return Described(*row_, "channels or planes at once"); }

 private:
  const Node& node_;
  const ukernel::AffineKernel* row_;
  bool global_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  for (int i = 1; i < 5; ++i) {
    if (node.input(i) && !Product(*node.input(i)->type().shape).is_constant(1)) return "scales of several elements";
  }
  if (node.input(0)->type().rank() < 3 || node.input(0)->type().rank() > 5) return "pools over more than 3 dimensions";
  return {};
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new PoolKernel(node, *context.config));
}

constexpr CpuOp kOps[] = {
    {"com.microsoft", "QLinearAveragePool", Reject, Compile},
    {"com.microsoft", "QLinearGlobalAveragePool", Reject, Compile},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsQLinearPool = kOps;

}  // namespace quern::cpu
