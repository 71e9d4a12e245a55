// Softmax, LogSoftmax, Hardmax, LayerNormalization, RMSNormalization, SimplifiedLayerNormalization,
// InstanceNormalization and BatchNormalization of float32 and float64.
#include <cmath>

#include "parallel/partition.h"
#include "provider/cpu/common/moments.h"

namespace quern::cpu {
namespace {

using ukernel::VectorKernel;

int NormalizedAxis(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

// Lines of `count` elements that are `inner` apart: those along the axis, or, before operator set 13, of all dimensions
// from the axis on.
struct Lines {
  int64_t outer, count, inner;

  static Lines Of(const Shape& shape, int64_t axis, bool flatten) {
    if (shape.rank() == 0) return {1, 1, 1};  // a scalar has no axis to be wrong
    const int a = NormalizedAxis(axis, shape.rank());
    if (flatten) return {shape.num_elements(0, a), shape.num_elements(a, shape.rank()), 1};
    return {shape.num_elements(0, a), shape[a], shape.num_elements(a + 1, shape.rank())};
  }
};

class SoftmaxKernel final : public CpuKernel {
 public:
  SoftmaxKernel(const Node& node, const CpuConfig& config)
      : node_(node),
        row_(VectorRowFor(config)),
        wide_row_(ElementwiseRowFor(config)),
        log_(node.op_type() == "LogSoftmax"),
        flatten_(node.opset() < 13),
        axis_(node.GetInt("axis", flatten_ ? 1 : -1)) {}
  Placement Place(const BindContext&) const override {
    Placement p;
    p.in_place_inputs = {0};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    if (shape.num_elements() == 0) return NothingToDo();
    const Lines lines = Lines::Of(shape, axis_, flatten_);
    return context.inputs[0].dtype == DType::kF64 ? BindLines<double>(lines, wide_row_->softmax)
                                                  : BindLines<float>(lines, row_->softmax);
  }
  KernelDescription Describe() const override {
    const std::string why = log_ ? "LogSoftmax by lines" : "Softmax by lines";
    return node_.input(0)->type().dtype == DType::kF64 ? Described(*wide_row_, why) : Described(*row_, why);
  }

 private:
  template <typename T>
  Result<std::unique_ptr<CpuStep>> BindLines(const Lines& lines,
                                             void (*softmax)(const ukernel::SoftmaxLines<T>&)) const {
    if (lines.inner == 1 && lines.count <= kShortLine && lines.outer > 1) return BindShortLines(lines, softmax);
    if (lines.inner == 1) {
      return MakeStep([=, log = log_](const StepContext& c) {
        const int64_t grain = std::max<int64_t>(1, kCostlyGrain / lines.count);
        return ForRange(c, lines.outer, grain, [&](int64_t begin, int64_t end) {
          softmax({.count = static_cast<size_t>(lines.count),
                   .x = static_cast<const T*>(c.inputs[0]) + begin * lines.count,
                   .y = static_cast<T*>(c.outputs[0]) + begin * lines.count,
                   .log = log,
                   .lines = static_cast<size_t>(end - begin),
                   .pitch = lines.count});
        });
      });
    }
    // Lines of one task, when they are not contiguous: what the kernel handles at once.
    const int64_t width = std::min<int64_t>(lines.inner, 64), blocks = (lines.inner + width - 1) / width;
    return MakeStep([=, log = log_](const StepContext& c) {
      return ForItems(c, lines.outer * blocks, lines.count * width, kCostlyGrain, [&](int64_t item) {
        const int64_t first = item % blocks * width, at = item / blocks * lines.count * lines.inner + first;
        softmax({.count = static_cast<size_t>(lines.count),
                 .stride = lines.inner,
                 .width = static_cast<size_t>(std::min(width, lines.inner - first)),
                 .x = static_cast<const T*>(c.inputs[0]) + at,
                 .y = static_cast<T*>(c.outputs[0]) + at,
                 .log = log});
      });
    });
  }

  // Lines of few neighbours, which a call each would cost more than: a block of them is turned, and turned back.
  static constexpr int64_t kShortLine = 16, kTurned = 64;
  template <typename T>
  Result<std::unique_ptr<CpuStep>> BindShortLines(const Lines& lines,
                                                  void (*softmax)(const ukernel::SoftmaxLines<T>&)) const {
    return MakeStep([=, log = log_, total = lines.outer, count = lines.count](const StepContext& c) {
      return ForItems(c, (total + kTurned - 1) / kTurned, count * kTurned, kCostlyGrain, [&](int64_t block) {
        const int64_t first = block * kTurned, n = std::min(kTurned, total - first);
        const T* x = static_cast<const T*>(c.inputs[0]) + first * count;
        T* y = static_cast<T*>(c.outputs[0]) + first * count;
        T turned[kShortLine * kTurned];
        for (int64_t r = 0; r < count; ++r) {
          for (int64_t i = 0; i < n; ++i) turned[r * n + i] = x[i * count + r];
        }
        softmax({.count = static_cast<size_t>(count),
                 .stride = n,
                 .width = static_cast<size_t>(n),
                 .x = turned,
                 .y = turned,
                 .log = log});
        for (int64_t r = 0; r < count; ++r) {
          for (int64_t i = 0; i < n; ++i) y[i * count + r] = turned[r * n + i];
        }
      });
    });
  }

  const Node& node_;
  const VectorKernel* row_;
  const ukernel::ElementwiseKernel* wide_row_;  // float64
  bool log_, flatten_;
  int64_t axis_;
};

std::string RejectSoftmax(const Node& node, const CpuConfig&) {
  return RejectUnlessType(node.input(0), {DType::kF32, DType::kF64});
}

// Where the first largest of `count` elements, `stride` apart, stands; NaNs are passed over, but for the first element.
template <typename T>
int64_t LargestAt(int64_t count, int64_t stride, const T* x) {
  int64_t best = 0;
  for (int64_t k = 1; k < count; ++k) {
    if (x[k * stride] > x[best * stride]) best = k;
  }
  return best;
}

// 1 at the first largest element of each of n (at most kHardmaxLines) neighbouring lines, 0 elsewhere; y may be x.
constexpr int64_t kHardmaxLines = 64;
template <typename T>
void HardmaxLines(const ukernel::FoldFunctions<T>& folds, const Lines& lines, int64_t n, const T* x, T* y) {
  int64_t places[kHardmaxLines];
  const auto count = static_cast<size_t>(lines.count);
  if (lines.inner == 1) {
    places[0] = static_cast<int64_t>(folds.arg({.which = {}, .n = count, .x = x}));
  } else {
    folds.arg_rows(
        {.which = {}, .rows = count, .n = static_cast<size_t>(n), .x = x, .row_stride = lines.inner, .y = places});
  }
  for (int64_t i = 0; i < n; ++i) {
    // To a fold a NaN is the largest of all.
    if (std::isnan(x[places[i] * lines.inner + i])) places[i] = LargestAt(lines.count, lines.inner, x + i);
  }
  for (int64_t k = 0; k < (lines.inner == 1 ? 1 : lines.count); ++k) {
    std::fill_n(y + k * lines.inner, lines.inner == 1 ? lines.count : n, T{0});
  }
  for (int64_t i = 0; i < n; ++i) y[places[i] * lines.inner + i] = T{1};
}

class HardmaxKernel final : public CpuKernel {
 public:
  HardmaxKernel(const Node& node, const CpuConfig& config)
      : rows_(config), flatten_(node.opset() < 13), axis_(node.GetInt("axis", flatten_ ? 1 : -1)) {}
  Placement Place(const BindContext&) const override { return {.views = {}, .parts = {}, .in_place_inputs = {0}}; }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    if (shape.num_elements() == 0) return NothingToDo();
    return ByFloatType(context, [lines = Lines::Of(shape, axis_, flatten_), rows = rows_]<typename T>() {
      const int64_t width = std::min(lines.inner, kHardmaxLines), blocks = (lines.inner + width - 1) / width;
      return MakeStep([=, folds = rows.Of<T>()](const StepContext& c) {
        return ForItems(c, lines.outer * blocks, lines.count * width, kCheapGrain, [&](int64_t item) {
          const int64_t first = item % blocks * width, at = item / blocks * lines.count * lines.inner + first;
          HardmaxLines(folds, lines, std::min(width, lines.inner - first), static_cast<const T*>(c.inputs[0]) + at,
                       static_cast<T*>(c.outputs[0]) + at);
        });
      });
    });
  }
  KernelDescription Describe() const override {
    return Described(ukernel::Name(*rows_.fold).text, "Hardmax by the places of extremes");
  }

 private:
  const FoldRows rows_;
  bool flatten_;
  int64_t axis_;
};

// y = (x - mean) * inverse * scale + bias; scale and bias may be null.
void NormalizeRow(const FoldRows& rows, int64_t n, const float* x, Moments<float> m, const float* scale,
                  const float* bias, float* y) {
  rows.vector->normalize(
      {.n = static_cast<size_t>(n), .x = x, .y = y, .shift = m.mean, .scale = m.inverse, .gamma = scale, .beta = bias});
}
void NormalizeRow(const FoldRows&, int64_t n, const double* x, Moments<double> m, const double* scale,
                  const double* bias, double* y) {
  for (int64_t i = 0; i < n; ++i) {
    const double v = (x[i] - m.mean) * m.inverse;
    y[i] = (scale ? v * scale[i] : v) + (bias ? bias[i] : 0.0);
  }
}

// A statistic as element i of an output of `type`, where there is one.
template <typename T>
void Store(DType type, void* output, int64_t i, T statistic) {
  if (type == DType::kF32) static_cast<float*>(output)[i] = static_cast<float>(statistic);
  if (type == DType::kF64) static_cast<double*>(output)[i] = static_cast<double>(statistic);
}

// Rows over all dimensions from the axis on.
class LayerNormKernel final : public CpuKernel {
 public:
  LayerNormKernel(const Node& node, const CpuConfig& config)
      : rows_(config),
        subtract_mean_(node.op_type() == "LayerNormalization"),
        dtype_(node.input(0)->type().dtype),
        axis_(node.GetInt("axis", -1)),
        epsilon_(node.GetFloat("epsilon", 1e-5f)) {}
  Placement Place(const BindContext&) const override {
    Placement p;
    p.in_place_inputs = {0};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const int axis = NormalizedAxis(axis_, shape.rank());
    const int64_t rows = shape.num_elements(0, axis), count = shape.num_elements(axis, shape.rank());
    const Shape row(shape.span().subspan(static_cast<size_t>(axis)));
    for (size_t i = 1; i < context.inputs.size(); ++i) {
      if (context.inputs[i].present() && !(context.inputs[i].shape == row)) {
        return InvalidArgument("a scale or bias of shape " + context.inputs[i].shape.ToString() +
                               " but the model promises " + row.ToString());
      }
    }
    if (rows == 0) return NothingToDo();  // rows without elements still have a mean: NaN
    return ByFloatType(context, [&]<typename T>() { return BindRows<T>(context, rows, count); });
  }
  KernelDescription Describe() const override { return rows_.Describe(dtype_, "each row while it is in cache"); }

 private:
  template <typename T>
  Result<std::unique_ptr<CpuStep>> BindRows(const BindContext& context, int64_t rows, int64_t count) const {
    const auto type_of = [&](size_t i) {
      return i < context.outputs.size() ? context.outputs[i].dtype : DType::kUndefined;
    };
    const size_t inverse_at = subtract_mean_ ? 2 : 1;  // among the outputs, the mean before it
    return MakeStep([=, folds = rows_, subtract = subtract_mean_, epsilon = epsilon_, has_scale = context.has_input(1),
                     has_bias = context.has_input(2), mean_type = subtract_mean_ ? type_of(1) : DType::kUndefined,
                     inverse_type = type_of(inverse_at)](const StepContext& c) {
      const T* scale = has_scale ? static_cast<const T*>(c.inputs[1]) : nullptr;
      const T* bias = has_bias ? static_cast<const T*>(c.inputs[2]) : nullptr;
      void* const means = mean_type == DType::kUndefined ? nullptr : c.outputs[1];
      void* const inverses = inverse_type == DType::kUndefined ? nullptr : c.outputs[inverse_at];
      return ForItems(c, rows, count * 2, kCheapGrain, [&](int64_t r) {
        const T* x = static_cast<const T*>(c.inputs[0]) + r * count;
        const Moments<T> m = MomentsOf(folds.Of<T>(), count, x, subtract, static_cast<T>(epsilon));
        NormalizeRow(folds, count, x, m, scale, bias, static_cast<T*>(c.outputs[0]) + r * count);
        Store(mean_type, means, r, m.mean);
        Store(inverse_type, inverses, r, m.inverse);
      });
    });
  }

  const FoldRows rows_;
  const bool subtract_mean_;
  const DType dtype_;
  int64_t axis_;
  float epsilon_;
};

std::string RejectLayerNorm(const Node& node, const CpuConfig&) {
  if (std::string why = RejectMixedFloats(node); !why.empty()) return why;
  for (const GraphValue* v : node.outputs()) {
    const DType t = node.input(0)->type().dtype;
    if (v && v->type().dtype == DType::kF64 && t != DType::kF64)
      return std::string("f64 statistics of ") + DTypeName(t);
  }
  const Dims& x = *node.input(0)->type().shape;
  const int rank = static_cast<int>(x.size());
  const int axis = NormalizedAxis(node.GetInt("axis", -1), rank);
  if (axis < 0 || axis >= rank) return "an axis outside of the input";
  for (int i = 1; i < node.num_inputs(); ++i) {
    if (!node.input(i)) continue;
    const Dims& p = *node.input(i)->type().shape;
    if (Dims(x.begin() + axis, x.end()) != p) return "a scale or bias that broadcasts";
  }
  return {};
}

class InstanceNormKernel final : public CpuKernel {
 public:
  InstanceNormKernel(const Node& node, const CpuConfig& config)
      : rows_(config), dtype_(node.input(0)->type().dtype), epsilon_(node.GetFloat("epsilon", 1e-5f)) {}
  Placement Place(const BindContext&) const override {
    Placement p;
    p.in_place_inputs = {0};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    if (shape.num_elements() == 0) return NothingToDo();
    const int64_t channels = shape[1], plane = shape.num_elements(2, shape.rank());
    return ByFloatType(context, [=, this, images = shape[0]]<typename T>() {
      return MakeStep([=, epsilon = epsilon_, folds = rows_](const StepContext& c) {
        return ForItems(c, images * channels, plane * 2, kCheapGrain, [&](int64_t p) {
          const auto at = [&](int i, int64_t k) { return static_cast<const T*>(c.inputs[i]) + k; };
          const T* x = at(0, p * plane);
          const Moments<T> m = MomentsOf(folds.Of<T>(), plane, x, true, static_cast<T>(epsilon));
          Scale(folds, plane, x, m.mean, *at(1, p % channels) * m.inverse, *at(2, p % channels),
                static_cast<T*>(c.outputs[0]) + p * plane);
        });
      });
    });
  }
  KernelDescription Describe() const override { return rows_.Describe(dtype_, "each channel while it is in cache"); }

 private:
  const FoldRows rows_;
  const DType dtype_;
  float epsilon_;
};

std::string RejectInstanceNorm(const Node& node, const CpuConfig&) {
  if (node.input(0)->type().rank() < 3) return "an input without spatial dimensions";
  return RejectMixedFloats(node);
}

class BatchNormKernel final : public CpuKernel {
  static constexpr int64_t kChannelBlock = 64;

 public:
  BatchNormKernel(const Node& node, const CpuConfig& config)
      : rows_(config), dtype_(node.input(0)->type().dtype), epsilon_(node.GetFloat("epsilon", 1e-5f)) {}
  Placement Place(const BindContext&) const override {
    Placement p;
    p.in_place_inputs = {0};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    if (shape.num_elements() == 0) return NothingToDo();
    const int64_t channels = shape.rank() > 1 ? shape[1] : 1;
    const int64_t plane = shape.rank() > 2 ? shape.num_elements(2, shape.rank()) : 1;
    return ByFloatType(context, [=, this, images = shape[0]]<typename T>() {
      return MakeStep([=, epsilon = epsilon_, folds = rows_](const StepContext& c) {
        const auto vector = [&](size_t i) { return static_cast<const T*>(c.inputs[i]); };
        const auto factor = [&](int64_t ch) {
          return static_cast<T>(static_cast<double>(vector(1)[ch]) /
                                std::sqrt(static_cast<double>(vector(4)[ch]) + epsilon));
        };
        if (plane == 1) {  // channels are neighbours
          return ForItems(c, CeilDiv(channels, kChannelBlock), kChannelBlock * images, kCheapGrain, [&](int64_t block) {
            const int64_t first = block * kChannelBlock, count = std::min(kChannelBlock, channels - first);
            const T *mean = vector(3) + first, *bias = vector(2) + first;
            T factors[kChannelBlock];
            for (int64_t i = 0; i < count; ++i) factors[i] = factor(first + i);
            for (int64_t at = first; at < images * channels; at += channels) {
              const T* x = vector(0) + at;
              T* y = static_cast<T*>(c.outputs[0]) + at;
              for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - mean[i]) * factors[i] + bias[i];
            }
          });
        }
        return ForItems(c, images * channels, plane, kCheapGrain, [&](int64_t p) {
          const int64_t ch = p % channels;
          Scale(folds, plane, vector(0) + p * plane, vector(3)[ch], factor(ch), vector(2)[ch],
                static_cast<T*>(c.outputs[0]) + p * plane);
        });
      });
    });
  }
  KernelDescription Describe() const override {
    return dtype_ == DType::kF32 ? Described(*rows_.vector, "a scale and a bias by channel")
                                 : Described("batch normalization (f64)", "plain loop by channel");
  }

 private:
  const FoldRows rows_;
  const DType dtype_;
  float epsilon_;
};

std::string RejectBatchNorm(const Node& node, const CpuConfig&) {
  for (int i = 1; i < node.num_outputs(); ++i) {
    if (node.output(i)) return "the outputs of training";
  }
  if (node.opset() >= 14 && node.GetInt("training_mode", 0) != 0) return "training mode";
  return RejectMixedFloats(node);
}

template <typename Kernel>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new Kernel(node, *context.config));
}

constexpr CpuOp kOps[] = {
    {"", "Softmax", RejectSoftmax, Compile<SoftmaxKernel>},
    {"", "LogSoftmax", RejectSoftmax, Compile<SoftmaxKernel>},
    {"", "Hardmax", RejectSoftmax, Compile<HardmaxKernel>},
    {"", "LayerNormalization", RejectLayerNorm, Compile<LayerNormKernel>},
    {"", "RMSNormalization", RejectLayerNorm, Compile<LayerNormKernel>},
    {"", "SimplifiedLayerNormalization", RejectLayerNorm, Compile<LayerNormKernel>},
    {"", "InstanceNormalization", RejectInstanceNorm, Compile<InstanceNormKernel>},
    {"", "BatchNormalization", RejectBatchNorm, Compile<BatchNormKernel>},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsNormalization = kOps;

}  // namespace quern::cpu
