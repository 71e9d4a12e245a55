// Softmax, LogSoftmax, LayerNormalization, RMSNormalization, InstanceNormalization and BatchNormalization of float32;
// Softmax and LogSoftmax of float64, too.
#include <cmath>

#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

using ukernel::FoldKind;
using ukernel::VectorKernel;

std::string RejectNotF32(const Node& node) {
  for (const GraphValue* v : node.inputs()) {
    if (std::string why = RejectUnlessType(v, {DType::kF32}); !why.empty()) return why;
  }
  return {};
}

int NormalizedAxis(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

// Softmax of doubles: one line of `count` elements that are `stride` apart.
void SoftmaxLine(bool log, int64_t count, int64_t stride, const double* x, double* y) {
  double largest = x[0], sum = 0;
  for (int64_t k = 1; k < count; ++k) largest = std::max(largest, x[k * stride]);
  for (int64_t k = 0; k < count; ++k) sum += std::exp(x[k * stride] - largest);
  const double shift = std::log(sum);
  for (int64_t k = 0; k < count; ++k) {
    const double v = x[k * stride] - largest;
    y[k * stride] = log ? v - shift : std::exp(v) / sum;
  }
}

class SoftmaxKernel final : public CpuKernel {
 public:
  SoftmaxKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)),
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
    const int axis = shape.rank() == 0 ? 0 : NormalizedAxis(axis_, shape.rank());  // a scalar has none to be wrong
    const int64_t outer = shape.num_elements(0, axis);
    // Before operator set 13 all dimensions from the axis on are one.
    const int64_t count = flatten_ ? shape.num_elements(axis, shape.rank()) : shape.rank() == 0 ? 1 : shape[axis];
    const int64_t inner = flatten_ || shape.rank() == 0 ? 1 : shape.num_elements(axis + 1, shape.rank());
    if (context.inputs[0].dtype == DType::kF64) {
      return MakeStep([=, log = log_](const StepContext& c) {
        return ForItems(c, outer * inner, 4 * count, kCostlyGrain, [&](int64_t line) {
          const int64_t at = line / inner * count * inner + line % inner;
          SoftmaxLine(log, count, inner, static_cast<const double*>(c.inputs[0]) + at,
                      static_cast<double*>(c.outputs[0]) + at);
        });
      });
    }
    // Lines of one task, when they are not contiguous: what the kernel handles at once.
    const int64_t width = std::min<int64_t>(inner, 64), blocks = (inner + width - 1) / width;
    return MakeStep([=, log = log_, row = row_](const StepContext& c) {
      return ForItems(c, outer * blocks, count * width, kCostlyGrain, [&](int64_t item) {
        const int64_t first = item % blocks * width, at = item / blocks * count * inner + first;
        row->softmax({.count = static_cast<size_t>(count),
                      .stride = inner,
                      .width = static_cast<size_t>(std::min(width, inner - first)),
                      .x = static_cast<const float*>(c.inputs[0]) + at,
                      .y = static_cast<float*>(c.outputs[0]) + at,
                      .log = log});
      });
    });
  }
  KernelDescription Describe() const override {
    return Described(*row_, log_ ? "LogSoftmax by lines" : "Softmax by lines");
  }

 private:
  const VectorKernel* row_;
  bool log_, flatten_;
  int64_t axis_;
};

std::string RejectSoftmax(const Node& node, const CpuConfig&) {
  return RejectUnlessType(node.input(0), {DType::kF32, DType::kF64});
}

// Rows over all dimensions from the axis on.
class LayerNormKernel final : public CpuKernel {
 public:
  LayerNormKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)),
        subtract_mean_(node.op_type() == "LayerNormalization"),
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
    if (rows == 0) return NothingToDo();  // rows without elements still have a mean: NaN
    const auto given = [&](size_t i) { return i < context.inputs.size() && context.inputs[i].present(); };
    const auto wanted = [&](size_t i) { return i < context.outputs.size() && context.outputs[i].present(); };
    return MakeStep([=, row = row_, subtract = subtract_mean_, epsilon = epsilon_, has_scale = given(1),
                     has_bias = given(2), wants_mean = wanted(1), wants_inverse = wanted(2)](const StepContext& c) {
      const auto* scale = has_scale ? static_cast<const float*>(c.inputs[1]) : nullptr;
      const auto* bias = has_bias ? static_cast<const float*>(c.inputs[2]) : nullptr;
      const size_t n = static_cast<size_t>(count);
      return ForItems(c, rows, count * 2, kCheapGrain, [&](int64_t r) {
        const float* x = static_cast<const float*>(c.inputs[0]) + r * count;
        const float mean =
            subtract ? row->fold({.kind = FoldKind::kSum, .n = n, .x = x}) / static_cast<float>(count) : 0;
        const float squares = row->fold({.kind = FoldKind::kSumSquares, .n = n, .x = x, .shift = mean});
        const float inverse = 1.0f / std::sqrt(squares / static_cast<float>(count) + epsilon);
        row->normalize({.n = n,
                        .x = x,
                        .y = static_cast<float*>(c.outputs[0]) + r * count,
                        .shift = mean,
                        .scale = inverse,
                        .gamma = scale,
                        .beta = bias});
        if (wants_mean) static_cast<float*>(c.outputs[1])[r] = mean;
        if (wants_inverse) static_cast<float*>(c.outputs[2])[r] = inverse;
      });
    });
  }
  KernelDescription Describe() const override { return Described(*row_, "each row while it is in cache"); }

 private:
  const VectorKernel* row_;
  bool subtract_mean_;
  int64_t axis_;
  float epsilon_;
};

std::string RejectLayerNorm(const Node& node, const CpuConfig&) {
  if (std::string why = RejectNotF32(node); !why.empty()) return why;
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

// One channel of one image: y = (x - mean) * factor + bias.
void Scale(int64_t n, const float* x, float mean, float factor, float bias, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * factor + bias;
}

class InstanceNormKernel final : public CpuKernel {
 public:
  InstanceNormKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)), epsilon_(node.GetFloat("epsilon", 1e-5f)) {}
  Placement Place(const BindContext&) const override {
    Placement p;
    p.in_place_inputs = {0};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    if (shape.num_elements() == 0) return NothingToDo();
    const int64_t channels = shape[1], plane = shape.num_elements(2, shape.rank());
    return MakeStep([=, images = shape[0], epsilon = epsilon_, row = row_](const StepContext& c) {
      return ForItems(c, images * channels, plane * 2, kCheapGrain, [&](int64_t p) {
        const float* x = static_cast<const float*>(c.inputs[0]) + p * plane;
        const size_t n = static_cast<size_t>(plane);
        const float mean = row->fold({.kind = FoldKind::kSum, .n = n, .x = x}) / static_cast<float>(plane);
        const float squares = row->fold({.kind = FoldKind::kSumSquares, .n = n, .x = x, .shift = mean});
        const float inverse = 1.0f / std::sqrt(squares / static_cast<float>(plane) + epsilon);
        Scale(plane, x, mean, static_cast<const float*>(c.inputs[1])[p % channels] * inverse,
              static_cast<const float*>(c.inputs[2])[p % channels], static_cast<float*>(c.outputs[0]) + p * plane);
      });
    });
  }
  KernelDescription Describe() const override { return Described(*row_, "each channel while it is in cache"); }

 private:
  const VectorKernel* row_;
  float epsilon_;
};

std::string RejectInstanceNorm(const Node& node, const CpuConfig&) {
  if (node.input(0)->type().rank() < 3) return "an input without spatial dimensions";
  return RejectNotF32(node);
}

class BatchNormKernel final : public CpuKernel {
 public:
  BatchNormKernel(const Node& node, const CpuConfig&) : epsilon_(node.GetFloat("epsilon", 1e-5f)) {}
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
    return MakeStep([=, images = shape[0], epsilon = epsilon_](const StepContext& c) {
      const auto vector = [&](size_t i) { return static_cast<const float*>(c.inputs[i]); };
      return ForItems(c, images * channels, plane, kCheapGrain, [&](int64_t p) {
        const int64_t ch = p % channels;
        const double factor =
            static_cast<double>(vector(1)[ch]) / std::sqrt(static_cast<double>(vector(4)[ch]) + epsilon);
        Scale(plane, vector(0) + p * plane, vector(3)[ch], static_cast<float>(factor), vector(2)[ch],
              static_cast<float*>(c.outputs[0]) + p * plane);
      });
    });
  }
  KernelDescription Describe() const override {
    return Described("batch normalization (f32)", "plain loop by channel");
  }

 private:
  float epsilon_;
};

std::string RejectBatchNorm(const Node& node, const CpuConfig&) {
  for (int i = 1; i < node.num_outputs(); ++i) {
    if (node.output(i)) return "the outputs of training";
  }
  if (node.opset() >= 14 && node.GetInt("training_mode", 0) != 0) return "training mode";
  return RejectNotF32(node);
}

template <typename Kernel>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new Kernel(node, *context.config));
}

constexpr CpuOp kOps[] = {
    {"", "Softmax", RejectSoftmax, Compile<SoftmaxKernel>},
    {"", "LogSoftmax", RejectSoftmax, Compile<SoftmaxKernel>},
    {"", "LayerNormalization", RejectLayerNorm, Compile<LayerNormKernel>},
    {"", "RMSNormalization", RejectLayerNorm, Compile<LayerNormKernel>},
    {"", "InstanceNormalization", RejectInstanceNorm, Compile<InstanceNormKernel>},
    {"", "BatchNormalization", RejectBatchNorm, Compile<BatchNormKernel>},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsNormalization = kOps;

}  // namespace quern::cpu
