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
    const int64_t taps = p.window ? p.window->kernel_size() * p.out.plane : p.in.plane;
    return MakeStep([=, type = context.outputs[0].dtype](const StepContext& c) {
      const auto zero_at = [&](size_t i) { return i < c.inputs.size() ? c.inputs[i] : nullptr; };
      const ByteQuantization from = ByteQuantization::Read(c.inputs[1], zero_at(2), type);
      const ByteQuantization to = ByteQuantization::Read(c.inputs[3], zero_at(4), type);
      const auto* x = static_cast<const uint8_t*>(c.inputs[0]);
      auto* y = static_cast<uint8_t*>(c.outputs[0]);
      return ForItems(c, p.in.batch * p.in.channels, taps, kCostlyGrain, [&](int64_t item) {
        const int64_t n = item / p.in.channels, ch = item % p.in.channels;
        p.window ? MeanOfWindows(p, from, to, n, ch, x, y) : MeanOfPlane(p, from, to, n, ch, x, y);
      });
    });
  }
  KernelDescription Describe() const override { return Described("sums of bytes", "plain loop by plane"); }

 private:
  static void MeanOfPlane(const Planes& p, const ByteQuantization& from, const ByteQuantization& to, int64_t n,
                          int64_t ch, const uint8_t* x, uint8_t* y) {
    const uint8_t* first = x + p.in.At(n, ch, 0);
    const int64_t step = p.in.channels_last ? p.in.channels : 1;
    int64_t sum = -p.in.plane * from.zero_point;
    for (int64_t i = 0; i < p.in.plane; ++i) sum += from.Number(first[i * step]);
    y[n * p.in.channels + ch] = to.Store(from.scale * static_cast<double>(sum) / static_cast<double>(p.in.plane));
  }
  static void MeanOfWindows(const Planes& p, const ByteQuantization& from, const ByteQuantization& to, int64_t n,
                            int64_t ch, const uint8_t* x, uint8_t* y) {
    const Window3& w = *p.window;
    int64_t sum = 0;
    double count = 0, padded = 0;
    ForEachWindow(
        w,
        [&](const int64_t* o) {
          sum = 0;
          count = 0;
          padded = TapsInPadded(w, 0, o[0]) * TapsInPadded(w, 1, o[1]) * TapsInPadded(w, 2, o[2]);
        },
        [&](int64_t i0, int64_t i1, int64_t i2) {
          sum += from.Number(x[p.in.At(n, ch, (i0 * w.in[1] + i1) * w.in[2] + i2)]) - from.zero_point;
          ++count;
        },
        [&](int64_t o) {
          const double divisor = p.include_pad ? padded : count;
          y[p.out.At(n, ch, o)] = to.Store(divisor == 0 ? 0.0 : from.scale * static_cast<double>(sum) / divisor);
        });
  }

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
