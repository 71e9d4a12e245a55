// MeanVarianceNormalization: (x - mean) / deviation over any axes, sums in double.
#include <cmath>

#include "ops/common/infer_common.h"
#include "provider/cpu/common/moments.h"
#include "provider/cpu/common/reduce_loops.h"

namespace quern::cpu {
namespace {

constexpr double kEpsilon = 1e-9;  // added to the deviation, as the function body of the specification has it

// The sum of f(x[i]) over n neighbours, in partial sums that a compiler keeps in vectors.
template <typename T, typename F>
double SumOf(int64_t n, const T* x, F f) {
  constexpr int64_t kPartial = 8;
  double partial[kPartial] = {}, sum = 0;
  int64_t i = 0;
  for (; i + kPartial <= n; i += kPartial) {
    for (int64_t k = 0; k < kPartial; ++k) partial[k] += f(static_cast<double>(x[i + k]));
  }
  for (; i < n; ++i) sum += f(static_cast<double>(x[i]));
  for (const double p : partial) sum += p;
  return sum;
}

// What one kept element is made of: lines of `run` neighbours.
template <typename T>
void NormalizeLines(const ReduceLoops& loops, const T* x, T* y) {
  const auto count = static_cast<double>(loops.count());
  double sum = 0, squares = 0;
  for (const ptrdiff_t o : loops.offsets) sum += SumOf(loops.run, x + o, [](double v) { return v; });
  const double mean = sum / count;
  for (const ptrdiff_t o : loops.offsets) {
    squares += SumOf(loops.run, x + o, [mean](double v) { return (v - mean) * (v - mean); });
  }
  const double inverse = 1 / (std::sqrt(squares / count) + kEpsilon);
  for (const ptrdiff_t o : loops.offsets) {
    for (int64_t i = 0; i < loops.run; ++i) {
      y[o + i] = static_cast<T>((static_cast<double>(x[o + i]) - mean) * inverse);
    }
  }
}

constexpr int64_t kColumns = 64;  // of one task: their moments stay in the innermost cache

// Likewise for n neighbouring kept elements, which are made of rows.
template <typename T>
void NormalizeColumns(const ReduceLoops& loops, int64_t n, const T* x, T* y) {
  const auto count = static_cast<double>(loops.count());
  double mean[kColumns] = {}, scale[kColumns] = {};
  for (const ptrdiff_t o : loops.offsets) {
    for (int64_t i = 0; i < n; ++i) mean[i] += static_cast<double>(x[o + i]);
  }
  for (int64_t i = 0; i < n; ++i) mean[i] /= count;
  for (const ptrdiff_t o : loops.offsets) {
    for (int64_t i = 0; i < n; ++i) {
      const double d = static_cast<double>(x[o + i]) - mean[i];
      scale[i] += d * d;
    }
  }
  for (int64_t i = 0; i < n; ++i) scale[i] = 1 / (std::sqrt(scale[i] / count) + kEpsilon);
  for (const ptrdiff_t o : loops.offsets) {
    for (int64_t i = 0; i < n; ++i) {
      y[o + i] = static_cast<T>((static_cast<double>(x[o + i]) - mean[i]) * scale[i]);
    }
  }
}

class MeanVarianceKernel final : public CpuKernel {
 public:
  explicit MeanVarianceKernel(const Node& node) : node_(node) {}
  Placement Place(const BindContext&) const override { return {.views = {}, .parts = {}, .in_place_inputs = {0}}; }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    QUERN_ASSIGN_OR_RETURN(const std::vector<int> axes,
                           NormalizeAxes(node_, node_.GetInts("axes", {0, 2, 3}), shape.rank()));
    if (shape.num_elements() == 0) return NothingToDo();
    std::vector<bool> reduced(static_cast<size_t>(shape.rank()));
    for (const int a : axes) reduced[static_cast<size_t>(a)] = true;
    return ByFloatType(context, [loops = MakeLoops(shape, reduced)]<typename T>() {
      const int64_t blocks = (loops.columns + kColumns - 1) / kColumns, outer = loops.outer.num_elements();
      return MakeStep([=](const StepContext& c) {
        const int64_t width = std::min(kColumns, loops.columns);
        return ForItems(c, outer * blocks, 3 * width * loops.count(), kCheapGrain, [&](int64_t item) {
          const int64_t first = item % blocks * kColumns, at = OuterOffset(loops, item / blocks) + first;
          const T* x = static_cast<const T*>(c.inputs[0]) + at;
          T* y = static_cast<T*>(c.outputs[0]) + at;
          if (loops.columns == 1) {
            NormalizeLines(loops, x, y);
          } else {
            NormalizeColumns(loops, std::min(kColumns, loops.columns - first), x, y);
          }
        });
      });
    });
  }
  KernelDescription Describe() const override {
    return Described("MeanVarianceNormalization", "plain loops, in double");
  }

 private:
  const Node& node_;
};

std::string Reject(const Node& node, const CpuConfig&) { return RejectMixedFloats(node); }

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new MeanVarianceKernel(node));
}

constexpr CpuOp kOps[] = {{"", "MeanVarianceNormalization", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsMeanVarianceNormalization = kOps;

}  // namespace quern::cpu
