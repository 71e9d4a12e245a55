#include "provider/cpu/common/indexed_max_pool.h"

#include <algorithm>
#include <limits>

#include "ops/common/pool.h"
#include "provider/cpu/common/fold_rows.h"

namespace quern::cpu {
namespace {

// From a place in a plane, row by row, to the same counted column by column.
int64_t ColumnMajor(const Window3& w, int64_t at) {
  if (w.in_size() == 0) return 0;  // all windows hold padding alone
  const int64_t i0 = at / (w.in[1] * w.in[2]), i1 = at / w.in[2] % w.in[1], i2 = at % w.in[2];
  return i0 + w.in[0] * (i1 + w.in[1] * i2);
}

constexpr int64_t kOutputs = 256;  // of a line, folded at once

// One line of outputs.
template <typename T>
struct Line {
  const Window3& w;
  KernelRange deep, high;  // the taps of its windows
  const T* plane;
  T* y;
  int64_t* places;  // in the plane, row by row; below 0 where a window holds padding alone

  // Outputs [begin, end): tap by tap, in the order of the plane, for all of them at once.
  void Fold(const ukernel::FoldFunctions<T>& folds, int64_t begin, int64_t end) const {
    using Range = std::numeric_limits<T>;
    std::fill_n(y + begin, end - begin, Range::has_infinity ? -Range::infinity() : Range::lowest());
    std::fill_n(places, end - begin, int64_t{-1});
    const int64_t first_tap = ValidKernel(w, 2, end - 1).first, last_tap = ValidKernel(w, 2, begin).last;
    for (int64_t i = deep.first; i < deep.last; ++i) {
      for (int64_t j = high.first; j < high.last; ++j) {
        const int64_t row = (deep.input_at_first + (i - deep.first) * w.dilation[0]) * w.in[1] + high.input_at_first +
                            (j - high.first) * w.dilation[1];
        for (int64_t k = first_tap; k < last_tap; ++k) {
          const TapRange valid = ValidTaps(w, 2, k);
          const int64_t first = std::max(valid.first, begin), last = std::min(valid.last, end);
          if (first >= last) continue;
          const int64_t at = row * w.in[2] + valid.input_at_first + (first - valid.first) * w.stride[2];
          folds.greatest({.n = static_cast<size_t>(last - first),
                          .x = plane + at,
                          .x_step = w.stride[2],
                          .first = at,
                          .best = y + first,
                          .place = places + (first - begin)});
        }
      }
    }
  }
};

template <typename T>
Result<std::unique_ptr<CpuStep>> BindIndexed(const ukernel::FoldFunctions<T>& folds, const Window3& w, int64_t planes,
                                             bool column_major, bool wants_indices) {
  // A window wider than the input has few taps inside, not the same ones for neighbouring outputs.
  const int64_t at_once = w.kernel[2] <= w.in[2] ? kOutputs : 1;
  return MakeStep([=](const StepContext& c) {
    const int64_t lines = w.out[0] * w.out[1];
    return ForItems(c, planes * lines, w.out[2] * w.reached_size(), kCheapGrain, [&](int64_t item) {
      int64_t places[kOutputs];
      const int64_t plane = item / lines;
      const Line<T> line{.w = w,
                         .deep = ValidKernel(w, 0, item % lines / w.out[1]),
                         .high = ValidKernel(w, 1, item % w.out[1]),
                         .plane = static_cast<const T*>(c.inputs[0]) + plane * w.in_size(),
                         .y = static_cast<T*>(c.outputs[0]) + item * w.out[2],
                         .places = places};
      for (int64_t begin = 0; begin < w.out[2]; begin += at_once) {
        const int64_t count = std::min(at_once, w.out[2] - begin);
        line.Fold(folds, begin, begin + count);
        if (!wants_indices) continue;
        int64_t* indices = static_cast<int64_t*>(c.outputs[1]) + item * w.out[2] + begin;
        for (int64_t o = 0; o < count; ++o) {
          const int64_t at = std::max<int64_t>(places[o], 0);
          indices[o] = plane * w.in_size() + (column_major ? ColumnMajor(w, at) : at);
        }
      }
    });
  });
}

class IndexedMaxPoolKernel final : public CpuKernel {
 public:
  IndexedMaxPoolKernel(const Node& node, const CpuConfig& config) : node_(node), rows_(config) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &in = context.inputs[0].shape, &out = context.outputs[0].shape;
    if (out.num_elements() == 0) return NothingToDo();
    QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(node_, in.rank() - 2, std::nullopt));
    QUERN_ASSIGN_OR_RETURN(const Window3 w, MakeWindow3(node_, window, in, out));
    const int64_t planes = in[0] * in[1];
    const bool column_major = node_.GetInt("storage_order", 0) != 0;
    const auto bind = [&]<typename T>() {
      return BindIndexed<T>(rows_.Of<T>(), w, planes, column_major, context.has_output(1));
    };
    switch (context.inputs[0].dtype) {
      case DType::kU8:
        return bind.template operator()<uint8_t>();
      case DType::kI8:
        return bind.template operator()<int8_t>();
      case DType::kF64:
        return bind.template operator()<double>();
      default:
        return bind.template operator()<float>();
    }
  }
  KernelDescription Describe() const override {
    return Described(ukernel::Name(*rows_.fold).text, "MaxPool with indices, lines of outputs at once");
  }

 private:
  const Node& node_;
  const FoldRows rows_;
};

}  // namespace

Result<std::unique_ptr<CpuKernel>> CompileIndexedMaxPool(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new IndexedMaxPoolKernel(node, *context.config));
}

}  // namespace quern::cpu
