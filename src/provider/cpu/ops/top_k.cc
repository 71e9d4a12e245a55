// TopK over any axis. Of few elements along an outer axis, the best so far of neighbouring lines are kept as vectors;
// else each line by itself: blocks of neighbours of which none comes before the last of those found are passed over.
#include <algorithm>
#include <cstring>

#include "ops/common/dispatch.h"
#include "ops/common/sorted_keys.h"
#include "provider/cpu/common/fold_rows.h"

namespace quern::cpu {
namespace {

using TopKTypes = Types<float, double, int32_t, int64_t>;

constexpr int64_t kFew = static_cast<int64_t>(ukernel::kMostTopRows);  // sorted as they come, more of them at the end
constexpr int64_t kBlock = 16;                                         // elements that are passed over at once

// The k first of one line of neighbouring elements: larger (smaller) ones first, NaN as larger than every number,
// equal ones by their index.
template <typename T, bool kLargest>
class LineTop {
 public:
  // Entries for SortByKey that Find needs.
  static int64_t Capacity(int64_t n, int64_t k) {
    return k <= kFew ? kFew : std::min(n, std::max<int64_t>(4 * k, 1024)) + kBlock;
  }
  // Elements of `extremes`; 0: none.
  static int64_t Columns(int64_t n, int64_t k) {
    const int64_t columns = std::max<int64_t>(64, (2 * k + kBlock - 1) / kBlock * kBlock);
    return n >= 6 * columns ? columns : 0;
  }

  LineTop(const ukernel::FoldFunctions<T>& folds, int64_t n, int64_t k, KeyedIndex* entries, T* extremes)
      : folds_(folds), n_(n), k_(k), capacity_(Capacity(n, k)), entries_(entries), extremes_(extremes) {}

  // The first k entries of `entries`, in order; k at least 1, at most n.
  void Find(const T* x) {
    Reset();
    if (const int64_t columns = Columns(n_, k_); columns > 0) {
      // Of the best of each column of a table that the line makes, k are not after the k-th of them: a first bound.
      folds_.fold_rows({.kind = kLargest ? ukernel::FoldKind::kMax : ukernel::FoldKind::kMin,
                        .rows = static_cast<size_t>(n_ / columns),
                        .n = static_cast<size_t>(columns),
                        .x = x,
                        .row_stride = columns,
                        .y = extremes_});
      Scan(extremes_, columns);
      const uint64_t bound = entries_[k_ - 1].key;
      const T last = extremes_[entries_[k_ - 1].index];
      Reset();
      bound_ = bound;
      last_ = last;
      bounded_ = true;
    }
    Scan(x, n_);
  }

 private:
  static uint64_t Key(T x) {
    constexpr uint64_t kAll = ~uint64_t{0} >> (64 - 8 * sizeof(T));
    return kLargest ? OrderedKey(x) ^ kAll : OrderedKey(x);
  }
  // False when each of kBlock elements comes after `last`, or is equal and kTies is false.
  template <bool kTies>
  static bool SomeMayEnter(const T* x, T last) {
    if constexpr (std::is_same_v<T, int64_t>) {  // the baseline has no vectors of such comparisons
      int some = 0;
      for (int64_t i = 0; i < kBlock; ++i) {
        some |= kLargest ? (kTies ? x[i] >= last : x[i] > last) : (kTies ? x[i] <= last : x[i] < last);
      }
      return some != 0;
    }
    typedef T Lanes __attribute__((vector_size(16)));
    constexpr int64_t kLanes = 16 / sizeof(T);
    const Lanes limit = Lanes{} + last;
    decltype(limit < limit) enters{};
    for (int64_t i = 0; i < kBlock; i += kLanes) {
      Lanes v;
      std::memcpy(&v, x + i, sizeof v);
      if constexpr (kTies) {
        enters |= ~(kLargest ? v < limit : v > limit);
      } else {
        enters |= ~(kLargest ? v <= limit : v >= limit);
      }
    }
    uint64_t words[2];
    std::memcpy(words, &enters, sizeof words);
    return (words[0] | words[1]) != 0;
  }

  void Reset() {
    size_ = 0;
    bound_ = ~uint64_t{0};
    ties_ = k_;
    bounded_ = false;
  }
  void Scan(const T* x, int64_t n) {
    if (k_ <= kFew) {
      ScanForFew(x, n);
    } else {
      ScanForMany(x, n);
    }
  }

  // The entries are sorted at any time.
  void ScanForFew(const T* x, int64_t n) {
    const auto insert = [&](int64_t i) {
      const KeyedIndex next{Key(x[i]), i};
      if (size_ == k_ ? next.key >= entries_[k_ - 1].key : next.key > bound_) return;
      int64_t at = size_ < k_ ? size_++ : k_ - 1;
      for (; at > 0 && entries_[at - 1].key > next.key; --at) entries_[at] = entries_[at - 1];
      entries_[at] = next;
      if (size_ == k_) last_ = x[entries_[k_ - 1].index];
    };
    int64_t i = 0;
    if (!bounded_) {
      for (; i < k_; ++i) insert(i);
    }
    for (; i + kBlock <= n; i += kBlock) {
      if (!(size_ == k_ ? SomeMayEnter<false>(x + i, last_) : SomeMayEnter<true>(x + i, last_))) continue;
      for (int64_t j = i; j < i + kBlock; ++j) insert(j);
    }
    for (; i < n; ++i) insert(i);
  }

  // The entries are candidates in the order they come, sorted and cut to k when there are too many.
  void ScanForMany(const T* x, int64_t n) {
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t count = std::min(kBlock, n - i);
      if (bounded_ && count == kBlock) {
        if (!(ties_ > 0 ? SomeMayEnter<true>(x + i, last_) : SomeMayEnter<false>(x + i, last_))) continue;
      }
      if (size_ + count > capacity_) {
        Sort();
        size_ = k_;
        bound_ = entries_[k_ - 1].key;
        last_ = x[entries_[k_ - 1].index];
        bounded_ = true;
        ties_ = 0;
      }
      for (int64_t j = i; j < i + count; ++j) {
        const uint64_t key = Key(x[j]);
        entries_[size_] = {key, j};
        const bool tie = key == bound_;
        size_ += key < bound_ || (tie && ties_ > 0) ? 1 : 0;
        ties_ -= tie ? 1 : 0;
      }
    }
    Sort();
  }
  void Sort() { SortByKey(entries_, entries_ + capacity_, size_, kKeyBytes<T>); }

  const ukernel::FoldFunctions<T> folds_;
  const int64_t n_, k_, capacity_;
  KeyedIndex* const entries_;  // capacity_, and as many for SortByKey
  T* const extremes_;

  int64_t size_ = 0;
  uint64_t bound_ = 0;  // the greatest key that may be among the k first
  int64_t ties_ = 0;    // elements of this key that may yet be among them
  T last_{};            // the element of that key, once bounded_
  bool bounded_ = false;
};

// One run over lines of n elements, `inner` elements apart.
template <typename T>
struct TopK {
  // Lines that are copied together, as they lie side by side.
  static constexpr int64_t kLines = static_cast<int64_t>(64 / sizeof(T)), kColumns = 64;

  ukernel::FoldFunctions<T> folds;
  int64_t outer, n, inner, k;
  bool largest;

  bool by_rows() const { return inner > 1 && k <= kFew && n <= INT32_MAX; }
  // Lines that are one task's at least.
  int64_t together() const { return std::min(inner, by_rows() ? kColumns : kLines); }
  int64_t blocks() const { return (inner + together() - 1) / together(); }
  size_t scratch_bytes() const {
    if (by_rows()) return 0;
    const int64_t copies = inner > 1 ? together() * n : 0;
    const size_t bytes = 2 * sizeof(KeyedIndex) * static_cast<size_t>(LineTop<T, true>::Capacity(n, k)) +
                         sizeof(T) * static_cast<size_t>(LineTop<T, true>::Columns(n, k) + copies);
    return (bytes + 63) / 64 * 64;
  }

  void Run(const T* x, T* values, int64_t* indices, char* scratch, int64_t begin, int64_t end) const {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item % blocks() * together(), count = std::min(together(), inner - first);
      const int64_t from = item / blocks() * n * inner + first, to = item / blocks() * k * inner + first;
      T* y = values ? values + to : nullptr;
      int64_t* places = indices ? indices + to : nullptr;
      if (by_rows()) {
        folds.top_rows({.smallest = !largest,
                        .rows = static_cast<size_t>(n),
                        .n = static_cast<size_t>(count),
                        .k = static_cast<size_t>(k),
                        .x = x + from,
                        .row_stride = inner,
                        .values = y,
                        .places = places,
                        .y_stride = inner});
      } else if (largest) {
        RunLines<true>(x + from, count, y, places, scratch);
      } else {
        RunLines<false>(x + from, count, y, places, scratch);
      }
    }
  }

  // `count` neighbouring lines.
  template <bool kLargest>
  void RunLines(const T* x, int64_t count, T* values, int64_t* indices, char* scratch) const {
    using Top = LineTop<T, kLargest>;
    auto* entries = reinterpret_cast<KeyedIndex*>(scratch);
    T* extremes = reinterpret_cast<T*>(entries + 2 * Top::Capacity(n, k));
    T* copies = extremes + Top::Columns(n, k);
    if (inner > 1) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t line = 0; line < count; ++line) copies[line * n + i] = x[i * inner + line];
      }
    }
    Top top(folds, n, k, entries, extremes);
    for (int64_t line = 0; line < count; ++line) {
      const T* row = inner > 1 ? copies + line * n : x;
      top.Find(row);
      for (int64_t i = 0; i < k; ++i) {
        if (values) values[i * inner + line] = row[entries[i].index];
        if (indices) indices[i * inner + line] = entries[i].index;
      }
    }
  }
};

class TopKKernel final : public CpuKernel {
 public:
  TopKKernel(const Node& node, const CpuConfig& config)
      : rows_(config),
        dtype_(node.input(0)->type().dtype),
        axis_(node.GetInt("axis", -1)),
        largest_(node.GetInt("largest", 1) != 0) {}
  uint64_t plan_time_inputs() const override { return 0b10; }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    if (context.outputs[0].shape.num_elements() == 0) return NothingToDo();
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + shape.rank() : axis_);
    std::unique_ptr<CpuStep> step;
    QUERN_RETURN_IF_ERROR(DispatchType(TopKTypes{}, context.inputs[0].dtype, [&]<typename T>() {
      const TopK<T> top{.folds = rows_.Of<T>(),
                        .outer = shape.num_elements(0, axis),
                        .n = shape[axis],
                        .inner = shape.num_elements(axis + 1, shape.rank()),
                        .k = context.outputs[0].shape[axis],
                        .largest = largest_};
      const int concurrency = context.concurrency;
      const size_t bytes = top.scratch_bytes();
      auto run = [=](const StepContext& c) {
        auto some = [&](int slot, int64_t begin, int64_t end) {
          top.Run(static_cast<const T*>(c.inputs[0]), static_cast<T*>(c.outputs[0]),
                  static_cast<int64_t*>(c.outputs[1]),
                  static_cast<char*>(c.scratch) + static_cast<size_t>(slot) * bytes, begin, end);
        };
        const int64_t items = top.outer * top.blocks(), elements = top.n * top.together();
        if (concurrency == 1 || items * elements <= kCostlyGrain) {
          some(0, 0, items);
          return OkStatus();
        }
        return c.executor->ParallelFor(items, std::max<int64_t>(1, kCostlyGrain / elements), some, c.cancel);
      };
      QUERN_ASSIGN_OR_RETURN(step, MakeStep(run, bytes * static_cast<size_t>(concurrency)));
      return OkStatus();
    }));
    return step;
  }
  KernelDescription Describe() const override { return rows_.Describe(dtype_, "the first of each line in order"); }

 private:
  const FoldRows rows_;
  const DType dtype_;
  int64_t axis_;
  bool largest_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  return RejectUnlessType(node.input(0), {DType::kF32, DType::kF64, DType::kI32, DType::kI64});
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new TopKKernel(node, *context.config));
}

constexpr CpuOp kOps[] = {{"", "TopK", Reject, Compile, 0b10}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsTopK = kOps;

}  // namespace quern::cpu
