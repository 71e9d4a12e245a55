// QuantizeLinear, DequantizeLinear (for each tensor, each index of an axis) and DynamicQuantizeLinear, as ONNX defines
// them: round half to even, then saturate.
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "ops/common/dispatch.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/quantization.h"

namespace quern::cpu {
namespace {

using StoredTypes = Types<int8_t, uint8_t, int16_t, uint16_t>;
using ReadTypes = Types<int8_t, uint8_t, int16_t, uint16_t, int32_t>;
constexpr TypeSet kStored = {DType::kI8, DType::kU8, DType::kI16, DType::kU16};

// x / scale rounded to nearest even, plus the zero point, within the range of T; a NaN becomes the lowest.
template <typename T>
T Quantized(float x, float scale, float zero) {
  constexpr float kLow = std::numeric_limits<T>::lowest(), kHigh = std::numeric_limits<T>::max();
  constexpr float kFar = 4194304.0f;     // 2^22: beyond every range, and below it the next line is exact
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float v = x / scale;
  const float bounded = v < -kFar ? -kFar : v > kFar ? kFar : v;
  const float q = (bounded + kRound - kRound) + zero;
  return static_cast<T>(q > kLow ? (q < kHigh ? q : kHigh) : kLow);
}

// The input as [outer, extent, inner] around the axis that scales belong to; extent 1 for one scale.
struct AxisLoops {
  int64_t outer = 1, extent = 1, inner = 1;
};
AxisLoops LoopsOf(const Node& node, const Shape& x, const Shape& scale) {
  if (scale.num_elements() == 1) return {1, 1, x.num_elements()};
  const int64_t axis = node.GetInt("axis", 1);
  const int a = static_cast<int>(axis < 0 ? axis + x.rank() : axis);
  return {x.num_elements(0, a), x[a], x.num_elements(a + 1, x.rank())};
}

// Calls f(scale index, first element, past the last) for runs of one scale in [begin, end).
template <typename F>
void ForRuns(const AxisLoops& l, int64_t begin, int64_t end, F f) {
  while (begin < end) {
    const int64_t line = begin / l.inner, stop = std::min(end, (line + 1) * l.inner);
    f(line % l.extent, begin, stop);
    begin = stop;
  }
}

class QuantizeKernel final : public CpuKernel {
 public:
  explicit QuantizeKernel(const Node& node) : node_(node) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const AxisLoops loops = LoopsOf(node_, context.inputs[0].shape, context.inputs[1].shape);
    const int64_t n = context.outputs[0].shape.num_elements();
    const bool has_zero = context.has_input(2);
    std::unique_ptr<CpuStep> step;
    QUERN_RETURN_IF_ERROR(DispatchType(StoredTypes{}, context.outputs[0].dtype, [&]<typename T>() {
      QUERN_ASSIGN_OR_RETURN(step, MakeStep([=](const StepContext& c) {
                               const auto *x = static_cast<const float*>(c.inputs[0]),
                                          *scale = static_cast<const float*>(c.inputs[1]);
                               const T* zero = has_zero ? static_cast<const T*>(c.inputs[2]) : nullptr;
                               T* y = static_cast<T*>(c.outputs[0]);
                               return ForRange(c, n, kCostlyGrain, [&](int64_t begin, int64_t end) {
                                 ForRuns(loops, begin, end, [&](int64_t p, int64_t first, int64_t last) {
                                   const float s = scale[p], z = zero ? static_cast<float>(zero[p]) : 0.0f;
                                   for (int64_t i = first; i < last; ++i) y[i] = Quantized<T>(x[i], s, z);
                                 });
                               });
                             }));
      return OkStatus();
    }));
    return step;
  }
  KernelDescription Describe() const override { return Described("quantize (f32)", "plain loop"); }

 private:
  const Node& node_;
};

class DequantizeKernel final : public CpuKernel {
 public:
  explicit DequantizeKernel(const Node& node) : node_(node) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const AxisLoops loops = LoopsOf(node_, context.inputs[0].shape, context.inputs[1].shape);
    const int64_t n = context.outputs[0].shape.num_elements();
    const bool has_zero = context.has_input(2);
    std::unique_ptr<CpuStep> step;
    QUERN_RETURN_IF_ERROR(DispatchType(ReadTypes{}, context.inputs[0].dtype, [&]<typename T>() {
      QUERN_ASSIGN_OR_RETURN(step, MakeStep([=](const StepContext& c) {
                               // Differences of 32-bit numbers need 64 bits.
                               using Wide = std::conditional_t<sizeof(T) == 4, int64_t, int32_t>;
                               const T* x = static_cast<const T*>(c.inputs[0]);
                               const auto* scale = static_cast<const float*>(c.inputs[1]);
                               const T* zero = has_zero ? static_cast<const T*>(c.inputs[2]) : nullptr;
                               auto* y = static_cast<float*>(c.outputs[0]);
                               return ForRange(c, n, kCheapGrain, [&](int64_t begin, int64_t end) {
                                 ForRuns(loops, begin, end, [&](int64_t p, int64_t first, int64_t last) {
                                   const float s = scale[p];
                                   const Wide z = zero ? static_cast<Wide>(zero[p]) : Wide{0};
                                   for (int64_t i = first; i < last; ++i)
                                     y[i] = static_cast<float>(static_cast<Wide>(x[i]) - z) * s;
                                 });
                               });
                             }));
      return OkStatus();
    }));
    return step;
  }
  KernelDescription Describe() const override { return Described("dequantize (f32)", "plain loop"); }

 private:
  const Node& node_;
};

class DynamicQuantizeKernel final : public CpuKernel {
 public:
  DynamicQuantizeKernel(const Node&, const CpuConfig& config) : row_(VectorRowFor(config)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    return MakeStep([n = context.inputs[0].shape.num_elements(), row = row_](const StepContext& c) {
      const auto* x = static_cast<const float*>(c.inputs[0]);
      const auto [low, high] = RangeOf(*row, x, n);
      const float scale = low == high ? 1.0f : (high - low) / 255.0f;  // zeros have no range: any scale serves
      const float zero = std::nearbyint(std::clamp(-low / scale, 0.0f, 255.0f));
      if (c.outputs[1]) *static_cast<float*>(c.outputs[1]) = scale;
      if (c.outputs[2]) *static_cast<uint8_t*>(c.outputs[2]) = static_cast<uint8_t>(zero);
      auto* y = static_cast<uint8_t*>(c.outputs[0]);
      if (!y) return OkStatus();
      return ForRange(c, n, kCostlyGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) y[i] = Quantized<uint8_t>(x[i], scale, zero);
      });
    });
  }
  KernelDescription Describe() const override { return Described(*row_, "range by folds, then quantized"); }

 private:
  // Smallest and largest element and 0; NaNs are passed over.
  static std::pair<float, float> RangeOf(const ukernel::VectorKernel& row, const float* x, int64_t n) {
    const auto count = static_cast<size_t>(n);
    float low = row.fold({.kind = ukernel::FoldKind::kMin, .n = count, .x = x});
    float high = row.fold({.kind = ukernel::FoldKind::kMax, .n = count, .x = x});
    if (std::isnan(low)) {
      low = high = 0;
      for (int64_t i = 0; i < n; ++i) {
        low = std::min(low, x[i]);
        high = std::max(high, x[i]);
      }
    }
    return {std::min(low, 0.0f), std::max(high, 0.0f)};
  }
  const ukernel::VectorKernel* row_;
};

std::string RejectBlocks(const Node& node) {
  if (node.GetInt("block_size", 0) != 0) return "scales of blocks";
  const Dims& scale = *node.input(1)->type().shape;
  return scale.size() > 1 ? "scales of blocks" : std::string();
}

std::string RejectQuantize(const Node& node, const CpuConfig&) {
  for (int i : {0, 1}) {
    if (std::string why = RejectUnlessType(node.input(i), {DType::kF32}); !why.empty()) return why;
  }
  if (std::string why = RejectUnlessType(node.output(0), kStored); !why.empty()) return "to " + why;
  if (!DividesInFloat(node)) return "precision other than float32";
  return RejectBlocks(node);
}

std::string RejectDequantize(const Node& node, const CpuConfig&) {
  if (std::string why = RejectUnlessType(node.input(0), kStored | TypeSet{DType::kI32}); !why.empty()) return why;
  if (std::string why = RejectUnlessType(node.input(1), {DType::kF32}); !why.empty()) return why;
  if (std::string why = RejectUnlessType(node.output(0), {DType::kF32}); !why.empty()) return "to " + why;
  return RejectBlocks(node);
}

std::string RejectDynamic(const Node& node, const CpuConfig&) { return RejectUnlessType(node.input(0), {DType::kF32}); }

template <typename Kernel>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  if constexpr (std::is_constructible_v<Kernel, const Node&, const CpuConfig&>) {
    return std::unique_ptr<CpuKernel>(new Kernel(node, *context.config));
  } else {
    return std::unique_ptr<CpuKernel>(new Kernel(node));
  }
}

constexpr CpuOp kOps[] = {
    {"", "QuantizeLinear", RejectQuantize, Compile<QuantizeKernel>},
    {"", "DequantizeLinear", RejectDequantize, Compile<DequantizeKernel>},
    {"", "DynamicQuantizeLinear", RejectDynamic, Compile<DynamicQuantizeKernel>},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsQuantize = kOps;

}  // namespace quern::cpu
