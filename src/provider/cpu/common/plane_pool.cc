#include "provider/cpu/common/plane_pool.h"

#include <algorithm>
#include <vector>

namespace quern::cpu {
namespace {

// Of the lines of a task, which stay in a first-level cache.
constexpr int64_t kLinesBytes = 12288;
// How much longer than a line a window or its padding may be.
constexpr double kFewElements = 64;

// Elements from the first to the last tap of a line.
int64_t Span(const Window3& w) { return (w.kernel[2] - 1) * w.dilation[2] + 1; }

// A line as its windows see it: `pad_begin` elements of padding, the line, and what the last windows reach behind it.
int64_t PaddedWidth(const Window3& w) {
  return std::max((w.out[2] - 1) * w.stride[2] + Span(w), w.pad_begin[2] + w.in[2]);
}

// How many elements a mean divides by: a product over the dimensions.
std::vector<double> Counts(const Pool& pool, int d) {
  const Window3& w = pool.w;
  std::vector<double> counts;
  for (int64_t o = 0; o < w.out[d]; ++o) {
    const int64_t start = o * w.stride[d] - w.pad_begin[d], past = w.in[d] + w.pad_end[d] - start;
    const int64_t padded = past <= 0 ? 0 : std::min(w.kernel[d], (past + w.dilation[d] - 1) / w.dilation[d]);
    const KernelRange inside = ValidKernel(w, d, o);
    counts.push_back(static_cast<double>(pool.include_pad ? padded : inside.last - inside.first));
  }
  return counts;
}

// to[i] = from[i * stride], i < n.
template <typename T>
void TakeEach(const T* from, int64_t stride, int64_t n, T* to) {
  if (stride == 1) {
    std::copy_n(from, n, to);
  } else if (stride == 2) {  // with a constant, compilers shuffle vectors
    for (int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
  }
}

template <typename T>
class PlanePool {
 public:
  PlanePool(const Pool& pool, const FoldRows& folds)
      : pool_(pool),
        folds_(folds),
        width_(PaddedWidth(pool.w)),
        lines_(pool.w.out[0] * pool.w.out[1]),
        band_(std::clamp<int64_t>(kLinesBytes / (width_ * static_cast<int64_t>(sizeof(T))), 1, lines_)) {
    for (int d = 0; d < 3; ++d) {
      counts_[d] = Counts(pool, d);
      same_counts_ = same_counts_ && std::ranges::count(counts_[d], counts_[d][0]) == std::ssize(counts_[d]);
    }
    const double count = counts_[0][0] * counts_[1][0] * counts_[2][0];
    same_counts_ = same_counts_ && count > 0;
    if (pool.fold.average && same_counts_) scale_ = static_cast<T>(1 / count);
    end_ = pool.w.out[2];
    const auto is_empty = [&](int64_t o) {
      const KernelRange taps = ValidKernel(pool_.w, 2, o);
      return taps.first == taps.last;
    };
    while (begin_ < end_ && is_empty(begin_)) ++begin_;
    while (begin_ < end_ && is_empty(end_ - 1)) --end_;
  }

  int64_t bands() const { return (lines_ + band_ - 1) / band_; }
  int64_t band_work() const { return band_ * width_ * (pool_.w.kernel[1] + pool_.w.kernel[2]); }
  size_t scratch_bytes() const {
    const size_t factors = static_cast<size_t>(pool_.w.out[2]) * sizeof(T);
    return (taps_bytes() + 2 * padded_bytes() + factors + 63) / 64 * 64;
  }

  // Band `band` of a plane.
  void Run(const T* x, T* y, int64_t band, std::byte* scratch) const {
    const Window3& w = pool_.w;
    auto* const offsets = reinterpret_cast<ptrdiff_t*>(scratch);
    T* const padded = reinterpret_cast<T*>(scratch + taps_bytes());
    T* const folded = reinterpret_cast<T*>(scratch + taps_bytes() + padded_bytes());
    T* const factors = reinterpret_cast<T*>(scratch + taps_bytes() + 2 * padded_bytes());
    const int64_t first = band * band_, last = std::min(first + band_, lines_);
    T* const result = y + first * w.out[2];
    const bool by_rows_alone = w.kernel[2] == 1 && w.stride[2] == 1 && width_ == w.in[2];
    FoldRowsOfWindows(x, first, last, offsets, by_rows_alone ? result : padded);
    if (!by_rows_alone) FoldColumnsOfWindows(padded, last - first, folded, result);
    if (!pool_.fold.average) {
      SetEmpty(result, last - first);
    } else if (!same_counts_) {
      Divide(first, last, factors, result);
    }
  }

 private:
  size_t taps_bytes() const {
    const Window3& w = pool_.w;
    return static_cast<size_t>(std::min(w.kernel[0], w.in[0]) * std::min(w.kernel[1], w.in[1])) * sizeof(ptrdiff_t);
  }
  size_t padded_bytes() const {
    return static_cast<size_t>(band_ * width_ * static_cast<int64_t>(sizeof(T)) + 7) / 8 * 8;
  }

  // Windows that hold no elements, which repeated padding does not show.
  void SetEmpty(T* y, int64_t lines) const {
    const T start = ukernel::FoldStart<T>(pool_.fold.kind);
    for (int64_t line = 0; line < lines; ++line, y += pool_.w.out[2]) {
      std::fill(y, y + begin_, start);
      std::fill(y + end_, y + pool_.w.out[2], start);
    }
  }
  // The sums of lines [first, last) to means.
  void Divide(int64_t first, int64_t last, T* factors, T* y) const {
    const Window3& w = pool_.w;
    double count = -1;  // of the rows that `factors` are for
    for (int64_t line = first; line < last; ++line, y += w.out[2]) {
      const double rows =
          counts_[0][static_cast<size_t>(line / w.out[1])] * counts_[1][static_cast<size_t>(line % w.out[1])];
      for (int64_t o = 0; rows != count && o < w.out[2]; ++o) {
        const double divisor = rows * counts_[2][static_cast<size_t>(o)];
        factors[o] = static_cast<T>(divisor == 0 ? 0 : 1 / divisor);
      }
      count = rows;
      for (int64_t o = 0; o < w.out[2]; ++o) y[o] = static_cast<T>(y[o] * factors[o]);
    }
  }
  // The padded lines, folded over the columns of their windows.
  void FoldColumnsOfWindows(const T* padded, int64_t lines, T* folded, T* y) const {
    const Window3& w = pool_.w;
    ukernel::RowsFold<T> fold = {.rows = static_cast<size_t>(w.kernel[2]),
                                 .n = static_cast<size_t>(w.out[2]),
                                 .x = padded,
                                 .row_stride = w.dilation[2],
                                 .scale = scale_,
                                 .y = y,
                                 .windows = static_cast<size_t>(lines),
                                 .x_step = width_,
                                 .y_step = w.out[2]};
    if (w.kernel[2] > 1 && w.stride[2] == 1) return pool_.fold.Run<T>(folds_, fold);
    if (w.kernel[2] > 1) {  // at every element, as of one long line
      fold.n = static_cast<size_t>(lines * width_ - Span(w) + 1);
      fold.y = folded;
      fold.windows = 1;
      pool_.fold.Run<T>(folds_, fold);
      padded = folded;
    }
    for (int64_t line = 0; line < lines; ++line, padded += width_, y += w.out[2]) {
      TakeEach(padded, w.stride[2], w.out[2], y);
    }
  }
  // Output lines [first, last) over the rows of their windows, between padding.
  void FoldRowsOfWindows(const T* x, int64_t first, int64_t last, ptrdiff_t* offsets, T* padded) const {
    const Window3& w = pool_.w;
    T* to = padded + w.pad_begin[2];
    for (int64_t line = first, count; line < last; line += count, to += count * width_) {
      const int64_t o0 = line / w.out[1], o1 = line % w.out[1];
      const KernelRange a = ValidKernel(w, 0, o0), b = ValidKernel(w, 1, o1);
      const int64_t deep = a.last - a.first, high = b.last - b.first;
      // Those that follow with all of their rows.
      count = 1;
      while (high == w.kernel[1] && o1 + count < w.out[1] && line + count < last) {
        const KernelRange next = ValidKernel(w, 1, o1 + count);
        if (next.last - next.first < high) break;
        ++count;
      }
      TapOffsets(pool_, deep, high, 1, offsets);
      const int64_t row = deep * high == 0 ? 0 : a.input_at_first * w.in[1] + b.input_at_first;
      const bool dense = w.stride[1] == 1 && width_ == w.in[2];
      pool_.fold.Run<T>(folds_, {.rows = static_cast<size_t>(deep * high),
                                 .n = static_cast<size_t>(dense ? count * w.in[2] : w.in[2]),
                                 .x = x + row * w.in[2],
                                 .offsets = offsets,
                                 .scale = w.kernel[2] == 1 ? scale_ : T{1},
                                 .y = to,
                                 .windows = static_cast<size_t>(dense ? 1 : count),
                                 .x_step = w.stride[1] * w.in[2],
                                 .y_step = width_});
    }
    // Padding: an extreme is that of its neighbours too, where every window that reaches it has them; infinities would
    // be looked at twice, as NaN may be behind them.
    const bool repeats = !pool_.fold.average && w.dilation[2] == 1;
    for (int64_t line = first; line < last; ++line, padded += width_) {
      T* const begin = padded + w.pad_begin[2];
      T* const end = begin + w.in[2];
      const T start = ukernel::FoldStart<T>(pool_.fold.kind);
      std::fill(padded, begin, repeats && w.in[2] > 0 ? *begin : start);
      std::fill(end, padded + width_, repeats && w.in[2] > 0 ? end[-1] : start);
    }
  }

  const Pool pool_;
  const FoldRows folds_;
  const int64_t width_, lines_, band_;
  std::vector<double> counts_[3];
  bool same_counts_ = true;  // of all windows: their sums are scaled as they are made
  T scale_ = 1;
  int64_t begin_ = 0, end_ = 0;  // columns whose windows hold elements
};

}  // namespace

bool FoldsByPlanes(const Pool& pool) {
  const Window3& w = pool.w;
  if (pool.channels != 1 || pool.from_pixel != 1 || pool.to_pixel != 1 || pool.fold.p != 0) return false;
  // Attributes may be as large as they like.
  const double line = static_cast<double>(w.in[2]);
  const double span = static_cast<double>(w.kernel[2]) * static_cast<double>(w.dilation[2]);
  const double reach = static_cast<double>(w.out[2]) * static_cast<double>(w.stride[2]) + span;
  return span <= line + kFewElements && reach <= 2 * line + 2 * kFewElements &&
         static_cast<double>(w.pad_begin[2]) <= line + kFewElements;
}

template <typename T>
Result<std::unique_ptr<CpuStep>> BindPlanePool(const Pool& pool, const FoldRows& folds, int concurrency) {
  const PlanePool<T> planes(pool, folds);
  const int64_t bands = planes.bands(), grain = std::max<int64_t>(1, kCheapGrain / planes.band_work());
  const size_t slot_bytes = planes.scratch_bytes();
  auto run = [=](const StepContext& c) {
    const auto task = [&](int slot, int64_t begin, int64_t end) {
      std::byte* scratch = static_cast<std::byte*>(c.scratch) + static_cast<size_t>(slot) * slot_bytes;
      for (int64_t item = begin; item < end; ++item) {
        const int64_t plane = item / bands;
        planes.Run(static_cast<const T*>(c.inputs[0]) + plane * pool.w.in_size(),
                   static_cast<T*>(c.outputs[0]) + plane * pool.w.out_size(), item % bands, scratch);
      }
    };
    return c.executor->ParallelFor(pool.images * bands, grain, task, c.cancel, concurrency);
  };
  return MakeStep(std::move(run), slot_bytes * static_cast<size_t>(concurrency));
}

template Result<std::unique_ptr<CpuStep>> BindPlanePool<float>(const Pool&, const FoldRows&, int);
template Result<std::unique_ptr<CpuStep>> BindPlanePool<double>(const Pool&, const FoldRows&, int);
template Result<std::unique_ptr<CpuStep>> BindPlanePool<uint8_t>(const Pool&, const FoldRows&, int);
template Result<std::unique_ptr<CpuStep>> BindPlanePool<int8_t>(const Pool&, const FoldRows&, int);

}  // namespace quern::cpu
