// GroupNormalization and LpNormalization of float32 and float64.
#include <cmath>
#include <limits>

#include "provider/cpu/common/moments.h"

namespace quern::cpu {
namespace {

using ukernel::FoldKind;
using ukernel::VectorKernel;

class GroupNormKernel final : public CpuKernel {
 public:
  GroupNormKernel(const Node& node, const CpuConfig& config)
      : rows_(config),
        dtype_(node.input(0)->type().dtype),
        groups_(node.GetInt("num_groups", 1)),
        per_channel_(node.opset() >= 21),
        epsilon_(node.GetFloat("epsilon", 1e-5f)) {}
  Placement Place(const BindContext&) const override { return {.views = {}, .parts = {}, .in_place_inputs = {0}}; }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const int64_t channels = shape[1], wanted = per_channel_ ? channels : groups_;
    if (channels % groups_ != 0) {
      return InvalidArgument("'num_groups' = " + std::to_string(groups_) + " does not divide the " +
                             std::to_string(channels) + " channels");
    }
    for (size_t i : {1, 2}) {
      if (!(context.inputs[i].shape == Shape{wanted})) {
        return InvalidArgument("a scale or bias of shape " + context.inputs[i].shape.ToString() + ", [" +
                               std::to_string(wanted) + "] is needed");
      }
    }
    if (shape.num_elements() == 0) return NothingToDo();
    const int64_t part = channels / groups_, plane = shape.num_elements(2, shape.rank()), n = part * plane;
    return ByFloatType(context, [=, this, images = shape[0]]<typename T>() {
      return MakeStep(
          [=, folds = rows_, groups = groups_, per_channel = per_channel_, epsilon = epsilon_](const StepContext& c) {
            return ForItems(c, images * groups, n * 3, kCheapGrain, [&](int64_t item) {
              const T* x = static_cast<const T*>(c.inputs[0]) + item * n;
              T* y = static_cast<T*>(c.outputs[0]) + item * n;
              const Moments<T> m = MomentsOf(folds.Of<T>(), n, x, true, static_cast<T>(epsilon));
              for (int64_t k = 0; k < part; ++k, x += plane, y += plane) {
                const int64_t at = per_channel ? item % groups * part + k : item % groups;
                Scale(folds, plane, x, m.mean, static_cast<const T*>(c.inputs[1])[at] * m.inverse,
                      static_cast<const T*>(c.inputs[2])[at], y);
              }
            });
          });
    });
  }
  KernelDescription Describe() const override { return rows_.Describe(dtype_, "each group while it is in cache"); }

 private:
  const FoldRows rows_;
  const DType dtype_;
  int64_t groups_;
  bool per_channel_;
  float epsilon_;
};

std::string RejectGroupNorm(const Node& node, const CpuConfig&) {
  if (node.input(0)->type().rank() < 2) return "an input without channels";
  if (node.GetInt("num_groups", 0) < 1) return "no groups";
  return RejectMixedFloats(node);
}

// One line over its norm, in double.
template <typename T>
void NormalizeLine(bool euclidean, int64_t count, int64_t stride, const T* x, T* y) {
  double norm = 0;
  for (int64_t k = 0; k < count; ++k) {
    const double v = static_cast<double>(x[k * stride]);
    norm += euclidean ? v * v : std::fabs(v);
  }
  if (euclidean) norm = std::sqrt(norm);
  for (int64_t k = 0; k < count; ++k) {
    y[k * stride] = norm == 0 ? T{0} : static_cast<T>(static_cast<double>(x[k * stride]) / norm);
  }
}

// x over the norm of its line; lines of neighbouring columns go together.
class LpNormKernel final : public CpuKernel {
 public:
  LpNormKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)),
        by_micro_kernel_(node.input(0)->type().dtype == DType::kF32),
        axis_(node.GetInt("axis", -1)),
        euclidean_(node.GetInt("p", 2) == 2) {}
  Placement Place(const BindContext&) const override { return {.views = {}, .parts = {}, .in_place_inputs = {0}}; }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + shape.rank() : axis_);
    if (axis < 0 || axis >= shape.rank()) {
      return InvalidArgument("axis " + std::to_string(axis_) + " is not one of shape " + shape.ToString());
    }
    if (shape.num_elements() == 0) return NothingToDo();
    const int64_t outer = shape.num_elements(0, axis), count = shape[axis];
    const int64_t inner = shape.num_elements(axis + 1, shape.rank());
    if (context.inputs[0].dtype == DType::kF64) {
      return MakeStep([=, euclidean = euclidean_](const StepContext& c) {
        return ForItems(c, outer * inner, 2 * count, kCostlyGrain, [&](int64_t line) {
          const int64_t at = line / inner * count * inner + line % inner;
          NormalizeLine(euclidean, count, inner, static_cast<const double*>(c.inputs[0]) + at,
                        static_cast<double*>(c.outputs[0]) + at);
        });
      });
    }
    constexpr int64_t kColumns = 256;                                // of one task
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();  // in the place of a norm: the line is done
    const int64_t blocks = (inner + kColumns - 1) / kColumns;
    return MakeStep([=, row = row_, euclidean = euclidean_](const StepContext& c) {
      const FoldKind kind = euclidean ? FoldKind::kSumSquares : FoldKind::kSumAbs;
      return ForItems(c, outer * blocks, count * std::min(kColumns, inner), kCheapGrain, [&](int64_t item) {
        const int64_t first = item % blocks * kColumns, n = std::min(kColumns, inner - first);
        const int64_t at = item / blocks * count * inner + first;
        const float* x = static_cast<const float*>(c.inputs[0]) + at;
        float* y = static_cast<float*>(c.outputs[0]) + at;
        float norms[kColumns];
        if (inner == 1) {
          norms[0] = row->fold({.kind = kind, .n = static_cast<size_t>(count), .x = x});
        } else {
          row->fold_rows({.kind = kind,
                          .rows = static_cast<size_t>(count),
                          .n = static_cast<size_t>(n),
                          .x = x,
                          .row_stride = inner,
                          .y = norms});
        }
        // Sums beyond the range of float32, and squares that lose digits, are left to lines of their own.
        constexpr float kTiny = 1e-30f;
        const auto fits = [&](int64_t i) { return std::isfinite(norms[i]) && (!euclidean || norms[i] > kTiny); };
        if (inner == 1) {
          if (!fits(0)) return NormalizeLine(euclidean, count, inner, x, y);
          const float norm = euclidean ? std::sqrt(norms[0]) : norms[0];
          for (int64_t k = 0; k < count; ++k) y[k] = norm == 0 ? 0.0f : x[k] / norm;
          return;
        }
        for (int64_t i = 0; i < n; ++i) {
          if (fits(i)) {
            norms[i] = euclidean ? std::sqrt(norms[i]) : norms[i];
          } else {
            NormalizeLine(euclidean, count, inner, x + i, y + i);
            norms[i] = kNan;
          }
        }
        for (int64_t k = 0; k < count; ++k, x += inner, y += inner) {
          for (int64_t i = 0; i < n; ++i) {
            if (norms[i] == norms[i]) y[i] = norms[i] == 0 ? 0.0f : x[i] / norms[i];
          }
        }
      });
    });
  }
  KernelDescription Describe() const override {
    return by_micro_kernel_ ? Described(*row_, "LpNormalization, folds of lines or rows")
                            : Described("LpNormalization (f64)", "plain loops by line");
  }

 private:
  const VectorKernel* row_;
  bool by_micro_kernel_;
  int64_t axis_;
  bool euclidean_;
};

std::string RejectLpNorm(const Node& node, const CpuConfig&) {
  if (const int64_t p = node.GetInt("p", 2); p != 1 && p != 2) return "p of " + std::to_string(p);
  return RejectMixedFloats(node);
}

template <typename Kernel>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new Kernel(node, *context.config));
}

constexpr CpuOp kOps[] = {
    {"", "GroupNormalization", RejectGroupNorm, Compile<GroupNormKernel>},
    {"", "LpNormalization", RejectLpNorm, Compile<LpNormKernel>},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsGroupNormalization = kOps;

}  // namespace quern::cpu
