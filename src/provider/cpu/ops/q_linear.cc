// Operators of com.microsoft on bytes that are quantized as a whole, by micro-kernels or tables of the numbers behind
// them: QLinearAdd, QLinearMul, QLinearSigmoid, QLinearLeakyRelu, QLinearConcat, QLinearSoftmax, QLinearWhere. Results
// are rounded once.
#include <cmath>
#include <cstring>
#include <type_traits>

#include "ops/common/q_linear.h"
#include "provider/cpu/common/byte_tables.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

// Output scale and zero point at inputs `scale` and the next.
ByteQuantization QuantizationAt(const StepContext& c, size_t scale, DType type) {
  return ByteQuantization::Read(c.inputs[scale], c.inputs[scale + 1], type);
}

// QLinearAdd and QLinearMul.
class BinaryKernel final : public CpuKernel {
 public:
  BinaryKernel(const Node& node, const CpuConfig& config)
      : multiply_(node.op_type() == "QLinearMul"), row_(AffineRowFor(config)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const BroadcastWalk<2> walk(context.outputs[0].shape, {context.inputs[0].shape, context.inputs[3].shape});
    if (context.outputs[0].shape.num_elements() == 0) return NothingToDo();
    return MakeStep([=, type = context.outputs[0].dtype, multiply = multiply_, row = row_](const StepContext& c) {
      const ByteQuantization a = QuantizationAt(c, 1, type), b = QuantizationAt(c, 4, type),
                             to = QuantizationAt(c, 6, type);
      const auto *x = static_cast<const uint8_t*>(c.inputs[0]), *z = static_cast<const uint8_t*>(c.inputs[3]);
      auto* y = static_cast<uint8_t*>(c.outputs[0]);
      return walk.Run(c, kCostlyGrain, [&](int64_t at, const std::array<int64_t, 2>& from, int64_t count) {
        row->combine({.multiply = multiply,
                      .n = static_cast<size_t>(count),
                      .x = x + from[0],
                      .z = z + from[1],
                      .y = y + at,
                      .x_step = static_cast<size_t>(walk.step(0)),
                      .z_step = static_cast<size_t>(walk.step(1)),
                      .x_scale = a,
                      .z_scale = b,
                      .y_scale = to});
      });
    });
  }
  KernelDescription Describe() const override { return Described(*row_, "two numbers, rounded once"); }

 private:
  bool multiply_;
  const ukernel::AffineKernel* row_;
};

class UnaryKernel final : public CpuKernel {
 public:
  UnaryKernel(const Node& node, const CpuConfig& config)
      : sigmoid_(node.op_type() == "QLinearSigmoid"),
        alpha_(node.GetFloat("alpha", 0.01f)),
        row_(AffineRowFor(config)) {}
  Placement Place(const BindContext&) const override {
    Placement p;
    p.in_place_inputs = {0};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const int64_t n = context.outputs[0].shape.num_elements();
    return MakeStep(
        [=, type = context.outputs[0].dtype, sigmoid = sigmoid_, alpha = alpha_, row = row_](const StepContext& c) {
          const ByteTable table = MapBytes(QuantizationAt(c, 1, type), QuantizationAt(c, 3, type), [&](double x) {
            return sigmoid ? 1.0 / (1.0 + std::exp(-x)) : x < 0 ? alpha * x : x;
          });
          return ForRange(c, n, kCheapGrain, [&](int64_t begin, int64_t end) {
            row->map({.table = table.data(),
                      .n = static_cast<size_t>(end - begin),
                      .x = static_cast<const uint8_t*>(c.inputs[0]) + begin,
                      .y = static_cast<uint8_t*>(c.outputs[0]) + begin});
          });
        });
  }
  KernelDescription Describe() const override { return Described(*row_, "table of 256 results, made by each run"); }

 private:
  bool sigmoid_;
  double alpha_;
  const ukernel::AffineKernel* row_;
};

class ConcatKernel final : public CpuKernel {
 public:
  ConcatKernel(const Node& node, const CpuConfig& config) : axis_(node.GetInt("axis", 0)), row_(AffineRowFor(config)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.outputs[0].shape;
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + shape.rank() : axis_);
    const int64_t outer = shape.num_elements(0, axis), row = shape.num_elements(axis, shape.rank());
    if (shape.num_elements() == 0) return NothingToDo();
    std::vector<int64_t> counts;
    for (size_t i = 2; i < context.inputs.size(); i += 3) {
      counts.push_back(context.inputs[i].shape.num_elements(axis, shape.rank()));
    }
    return MakeStep([=, counts = std::move(counts), type = context.outputs[0].dtype,
                     kernel = row_](const StepContext& c) {
      const ByteQuantization to = QuantizationAt(c, 0, type);
      int64_t at = 0;
      for (size_t part = 0; part < counts.size(); ++part) {
        const size_t input = 2 + 3 * part;
        const int64_t count = counts[part];
        const ByteTable table = MapBytes(QuantizationAt(c, input + 1, type), to, [](double x) { return x; });
        const auto* x = static_cast<const uint8_t*>(c.inputs[input]);
        auto* y = static_cast<uint8_t*>(c.outputs[0]) + at;
        QUERN_RETURN_IF_ERROR(ForItems(c, outer, count, kCheapGrain, [&](int64_t o) {
          kernel->map({.table = table.data(), .n = static_cast<size_t>(count), .x = x + o * count, .y = y + o * row});
        }));
        at += count;
      }
      return OkStatus();
    });
  }
  KernelDescription Describe() const override { return Described(*row_, "tables of bytes, inputs side by side"); }

 private:
  int64_t axis_;
  const ukernel::AffineKernel* row_;
};

class SoftmaxKernel final : public CpuKernel {
 public:
  explicit SoftmaxKernel(const Node& node) : axis_(node.GetInt("axis", -1)), one_axis_(node.GetInt("opset", 0) >= 13) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.outputs[0].shape;
    if (shape.num_elements() == 0) return NothingToDo();
    const int rank = shape.rank(), axis = static_cast<int>(axis_ < 0 ? axis_ + rank : axis_);
    const int end = one_axis_ ? std::min(axis + 1, rank) : rank;
    const int64_t count = rank == 0 ? 1 : shape.num_elements(axis, end);
    const int64_t inner = rank == 0 ? 1 : shape.num_elements(end, rank);
    const int64_t lines = shape.num_elements() / count;
    return MakeStep([=, type = context.outputs[0].dtype](const StepContext& c) {
      const ByteQuantization from = QuantizationAt(c, 1, type);
      ByteQuantization to = QuantizationAt(c, 3, type);
      to.scale = SoftmaxScale(to.scale);
      const Shares shares = SharesBelowLargest(from);
      return ForItems(c, lines, count * 4, kCostlyGrain, [&](int64_t line) {
        const int64_t first = line / inner * count * inner + line % inner;
        StoreLine(shares, from, to, count, inner, static_cast<const uint8_t*>(c.inputs[0]) + first,
                  static_cast<uint8_t*>(c.outputs[0]) + first);
      });
    });
  }
  KernelDescription Describe() const override {
    return Described("table of bytes", "an exponential for each distance from the largest byte");
  }

 private:
  // Of a number that is so many bytes below the largest: exact differences, as a scale has 24 bits.
  using Shares = std::array<double, 256>;
  static Shares SharesBelowLargest(const ByteQuantization& q) {
    Shares table;
    for (int i = 0; i < 256; ++i) table[i] = std::exp(-std::fabs(static_cast<double>(q.scale)) * i);
    return table;
  }
  static void StoreLine(const Shares& shares, const ByteQuantization& from, const ByteQuantization& to, int64_t count,
                        int64_t inner, const uint8_t* x, uint8_t* y) {
    // In the order of the numbers behind them.
    const int flip = (from.is_signed ? 0x80 : 0) ^ (from.scale < 0 ? 0xff : 0);
    int largest = 0;
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, x[i * inner] ^ flip);
    const auto share_of = [&](int64_t i) { return shares[largest - (x[i * inner] ^ flip)]; };
    double even = 0, odd = 0;  // two sums, as each addition waits for the one before
    for (int64_t i = 0; i + 1 < count; i += 2) even += share_of(i), odd += share_of(i + 1);
    const double sum = even + odd + (count % 2 ? share_of(count - 1) : 0);
    // Products with the inverse are wrong by less than 1e-9: near a half, which NaN is too, the quotient decides.
    constexpr double kSure = 0.5 - 1e-9, kRound = 0x1.8p52;
    const double inverse = 1 / (sum * to.scale);
    const double low = to.is_signed ? -128 : 0, high = low + 255;
    for (int64_t i = 0; i < count; ++i) {
      const double share = share_of(i), product = share * inverse;
      const double rounded = (product + kRound) - kRound;
      if (std::fabs(product - rounded) < kSure) {
        const double number = std::min(std::max(rounded + to.zero_point, low), high);
        y[i * inner] = static_cast<uint8_t>(static_cast<int>(number));
      } else {
        y[i * inner] = to.Store(share / sum);
      }
    }
  }

  int64_t axis_;
  bool one_axis_;
};

// Scales and zero points are one number each.
template <int... kNumbers>
std::string RejectUnlessNumbers(const Node& node, const CpuConfig&) {
  for (const int i : {kNumbers...}) {
    if (node.input(i) && !Product(*node.input(i)->type().shape).is_constant(1)) return "scales of several elements";
  }
  return {};
}

std::string RejectConcat(const Node& node, const CpuConfig&) {
  for (int i = 0; i < node.num_inputs(); ++i) {
    const bool data = i >= 2 && i % 3 == 2;
    if (!data && !Product(*node.input(i)->type().shape).is_constant(1)) return "scales of several elements";
  }
  return {};
}

template <typename Kernel>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  if constexpr (std::is_constructible_v<Kernel, const Node&, const CpuConfig&>) {
    return std::unique_ptr<CpuKernel>(new Kernel(node, *context.config));
  } else {
    return std::unique_ptr<CpuKernel>(new Kernel(node));
  }
}

constexpr char kMicrosoft[] = "com.microsoft";
constexpr auto kRejectUnary = RejectUnlessNumbers<1, 2, 3, 4>;
constexpr auto kRejectBinary = RejectUnlessNumbers<1, 2, 4, 5, 6, 7>;
constexpr CpuOp kOps[] = {
    {kMicrosoft, "QLinearAdd", kRejectBinary, Compile<BinaryKernel>},
    {kMicrosoft, "QLinearMul", kRejectBinary, Compile<BinaryKernel>},
    {kMicrosoft, "QLinearSigmoid", kRejectUnary, Compile<UnaryKernel>},
    {kMicrosoft, "QLinearLeakyRelu", kRejectUnary, Compile<UnaryKernel>},
    {kMicrosoft, "QLinearConcat", RejectConcat, Compile<ConcatKernel>},
    {kMicrosoft, "QLinearSoftmax", kRejectUnary, Compile<SoftmaxKernel>},
    {kMicrosoft, "QLinearWhere", RejectUnlessNumbers<2, 3, 5, 6, 7, 8>, nullptr},  // as Where: cpu_split_fused
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsQLinear = kOps;

}  // namespace quern::cpu
