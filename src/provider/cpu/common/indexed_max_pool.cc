#include "provider/cpu/common/indexed_max_pool.h"

#include <limits>

#include "ops/common/pool.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

// The largest element of the window at (a, b, c) of a plane, and its place in the plane (row-major). A NaN wins over
// every number; of equal elements the first one counts.
template <typename T>
int64_t Largest(const Window3& w, const T* plane, const KernelRange& a, const KernelRange& b, const KernelRange& c,
                T* largest) {
  T best =
      std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  int64_t best_at = 0;
  bool any = false;
  for (int64_t i = a.first; i < a.last; ++i) {
    for (int64_t j = b.first; j < b.last; ++j) {
      const int64_t row = (a.input_at_first + (i - a.first) * w.dilation[0]) * w.in[1] + b.input_at_first +
                          (j - b.first) * w.dilation[1];
      int64_t at = row * w.in[2] + c.input_at_first;
      for (int64_t k = c.first; k < c.last; ++k, at += w.dilation[2]) {
        const T v = plane[at];
        if (any && !(v > best) && !(v != v && best == best)) continue;
        any = true;
        best = v;
        best_at = at;
      }
    }
  }
  *largest = best;
  return best_at;
}

template <typename T>
Result<std::unique_ptr<CpuStep>> BindIndexed(const Window3& w, int64_t planes, bool column_major, bool wants_indices) {
  return MakeStep([=](const StepContext& c) {
    const int64_t lines = w.out[0] * w.out[1];
    return ForItems(c, planes * lines, w.out[2] * w.reached_size(), kCostlyGrain, [&](int64_t item) {
      const int64_t plane = item / lines, o0 = item % lines / w.out[1], o1 = item % w.out[1];
      const T* x = static_cast<const T*>(c.inputs[0]) + plane * w.in_size();
      T* y = static_cast<T*>(c.outputs[0]) + item * w.out[2];
      int64_t* indices = wants_indices ? static_cast<int64_t*>(c.outputs[1]) + item * w.out[2] : nullptr;
      const KernelRange a = ValidKernel(w, 0, o0), b = ValidKernel(w, 1, o1);
      for (int64_t o2 = 0; o2 < w.out[2]; ++o2) {
        int64_t at = Largest(w, x, a, b, ValidKernel(w, 2, o2), y + o2);
        if (column_major && at > 0) {
          const int64_t i0 = at / (w.in[1] * w.in[2]), i1 = at / w.in[2] % w.in[1], i2 = at % w.in[2];
          at = i0 + w.in[0] * (i1 + w.in[1] * i2);
        }
        if (indices) indices[o2] = plane * w.in_size() + at;
      }
    });
  });
}

class IndexedMaxPoolKernel final : public CpuKernel {
 public:
  explicit IndexedMaxPoolKernel(const Node& node) : node_(node) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &in = context.inputs[0].shape, &out = context.outputs[0].shape;
    if (out.num_elements() == 0) return NothingToDo();
    QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(node_, in.rank() - 2, std::nullopt));
    QUERN_ASSIGN_OR_RETURN(const Window3 w, MakeWindow3(node_, window, in, out));
    const int64_t planes = in[0] * in[1];
    const bool column_major = node_.GetInt("storage_order", 0) != 0;
    const bool wanted = context.has_output(1);
    switch (context.inputs[0].dtype) {
      case DType::kU8:
        return BindIndexed<uint8_t>(w, planes, column_major, wanted);
      case DType::kI8:
        return BindIndexed<int8_t>(w, planes, column_major, wanted);
      case DType::kF64:
        return BindIndexed<double>(w, planes, column_major, wanted);
      default:
        return BindIndexed<float>(w, planes, column_major, wanted);
    }
  }
  KernelDescription Describe() const override { return Described("MaxPool with indices", "plain loop over windows"); }

 private:
  const Node& node_;
};

}  // namespace

Result<std::unique_ptr<CpuKernel>> CompileIndexedMaxPool(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new IndexedMaxPoolKernel(node));
}

}  // namespace quern::cpu
