// QLinearAveragePool and QLinearGlobalAveragePool of com.microsoft: sums of bytes, their mean rounded once.
#include "ops/common/q_linear_pool.h"
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

constexpr int64_t kChannels = 64;  // summed at once where channels come last

// One run.
struct Pool {
  const Planes& p;
  ByteQuantization from, to;
  const uint8_t* x;
  uint8_t* y;

  // Signed bytes count from -128.
  uint8_t flip() const { return from.is_signed ? 0x80 : 0; }
  uint8_t Mean(int64_t sum, int64_t count, double divisor) const {
    const int64_t numbers = sum - count * (from.zero_point + flip());
    return to.Store(divisor == 0 ? 0.0 : from.scale * static_cast<double>(numbers) / divisor);
  }

  // Adds `rows` rows of `width` neighbours, at most kChannels.
  void AddRows(const uint8_t* row, int64_t rows, int64_t stride, int64_t width, int64_t* sums) const {
    constexpr int64_t kFew = 65536;  // whose sums fit 32 bits
    const uint8_t bits = flip();
    for (int64_t first = 0; first < rows; first += kFew) {
      uint32_t part[kChannels] = {};
      for (int64_t r = first; r < std::min(rows, first + kFew); ++r) {
        const uint8_t* bytes = row + r * stride;
        for (int64_t i = 0; i < width; ++i) part[i] += static_cast<uint8_t>(bytes[i] ^ bits);
      }
      for (int64_t i = 0; i < width; ++i) sums[i] += part[i];
    }
  }

  // One output pixel of the channels from `channel` on.
  void MeanOfChannels(int64_t n, int64_t pixel, int64_t channel) const {
    const int64_t channels = p.in.channels, width = std::min(kChannels, channels - channel);
    const uint8_t* image = x + p.in.At(n, channel, 0);
    int64_t sums[kChannels] = {}, count = p.in.plane;
    double divisor = static_cast<double>(count);
    if (!p.window) {
      AddRows(image, count, channels, width, sums);
    } else {
      const Window3& w = *p.window;
      const int64_t o[3] = {pixel / (w.out[1] * w.out[2]), pixel / w.out[2] % w.out[1], pixel % w.out[2]};
      const KernelRange a = ValidKernel(w, 0, o[0]), b = ValidKernel(w, 1, o[1]), r = ValidKernel(w, 2, o[2]);
      for (int64_t k0 = a.first; k0 < a.last; ++k0) {
        for (int64_t k1 = b.first; k1 < b.last; ++k1) {
          const int64_t i0 = a.input_at_first + (k0 - a.first) * w.dilation[0];
          const int64_t i1 = b.input_at_first + (k1 - b.first) * w.dilation[1];
          AddRows(image + ((i0 * w.in[1] + i1) * w.in[2] + r.input_at_first) * channels, r.last - r.first,
                  w.dilation[2] * channels, width, sums);
        }
      }
      count = (a.last - a.first) * (b.last - b.first) * (r.last - r.first);
      divisor = p.include_pad ? TapsInPadded(w, o) : static_cast<double>(count);
    }
    uint8_t* out = y + p.out.At(n, channel, pixel);
    for (int64_t i = 0; i < width; ++i) out[i] = Mean(sums[i], count, divisor);
  }

  // All output pixels of one channel, whose plane is contiguous.
  void MeansOfPlane(int64_t n, int64_t channel) const {
    const uint8_t* plane = x + p.in.At(n, channel, 0);
    uint8_t* out = y + p.out.At(n, channel, 0);
    if (!p.window) {
      int64_t sums[kChannels] = {}, sum = 0;
      const int64_t rows = p.in.plane / kChannels;
      AddRows(plane, rows, kChannels, kChannels, sums);
      AddRows(plane + rows * kChannels, 1, 0, p.in.plane % kChannels, sums);
      for (const int64_t s : sums) sum += s;
      *out = Mean(sum, p.in.plane, static_cast<double>(p.in.plane));
      return;
    }
    const Window3& w = *p.window;
    const uint8_t bits = flip();
    int64_t sum = 0, count = 0;
    double padded = 0;
    ForEachWindow(
        w,
        [&](const int64_t* o) {
          sum = count = 0;
          padded = TapsInPadded(w, o);
        },
        [&](int64_t i0, int64_t i1, int64_t i2) {
          sum += static_cast<uint8_t>(plane[(i0 * w.in[1] + i1) * w.in[2] + i2] ^ bits);
          ++count;
        },
        [&](int64_t o) { out[o] = Mean(sum, count, p.include_pad ? padded : static_cast<double>(count)); });
  }
};

class PoolKernel final : public CpuKernel {
 public:
  explicit PoolKernel(const Node& node) : node_(node), global_(node.op_type() == "QLinearGlobalAveragePool") {}
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
    return MakeStep([=, type = context.outputs[0].dtype](const StepContext& c) {
      const Pool pool{p, ByteQuantization::Read(c.inputs[1], c.inputs[2], type),
                      ByteQuantization::Read(c.inputs[3], c.inputs[4], type), static_cast<const uint8_t*>(c.inputs[0]),
                      static_cast<uint8_t*>(c.outputs[0])};
      const int64_t channels = p.in.channels, pixels = p.out.plane;
      if (p.in.channels_last) {
        const int64_t parts = (channels + kChannels - 1) / kChannels;
        return ForItems(c, p.in.batch * pixels * parts, taps * kChannels / 4, kCheapGrain, [&](int64_t item) {
          pool.MeanOfChannels(item / parts / pixels, item / parts % pixels, item % parts * kChannels);
        });
      }
      return ForItems(c, p.in.batch * channels, taps * pixels, kCostlyGrain,
                      [&](int64_t item) { pool.MeansOfPlane(item / channels, item % channels); });
    });
  }
  KernelDescription Describe() const override { return Described("sums of bytes", "channels or planes at once"); }

 private:
  const Node& node_;
  bool global_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  for (int i = 1; i < 5; ++i) {
    if (node.input(i) && !Product(*node.input(i)->type().shape).is_constant(1)) return "scales of several elements";
  }
  if (node.input(0)->type().rank() < 3 || node.input(0)->type().rank() > 5) return "pools over more than 3 dimensions";
  return {};
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new PoolKernel(node));
}

constexpr CpuOp kOps[] = {
    {"com.microsoft", "QLinearAveragePool", Reject, Compile},
    {"com.microsoft", "QLinearGlobalAveragePool", Reject, Compile},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsQLinearPool = kOps;

}  // namespace quern::cpu
