// TopK over any axis: the k first of each line by a heap of k, so that a line is read once; neighbouring elements of
// which none enters the heap are passed over as a whole.
#include <algorithm>

#include "ops/common/dispatch.h"
#include "provider/cpu/common/fold_rows.h"

namespace quern::cpu {
namespace {

using TopKTypes = Types<float, double, int32_t, int64_t>;

template <typename T>
struct Entry {
  T value;
  int64_t index;
};

// a before b in the result: larger (smaller) ones first, NaN as larger than every number, equal ones by their index.
template <typename T>
struct Before {
  bool largest;
  bool operator()(const Entry<T>& a, const Entry<T>& b) const {
    const bool less = Less(a.value, b.value), more = Less(b.value, a.value);
    if (less != more) return largest ? more : less;
    return a.index < b.index;
  }
  static bool Less(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a) return false;
      if (b != b) return true;
    }
    return a < b;
  }
};

// Where the next chunk of neighbours begins of which one may come before `last`, from row[i] on; n when there is none.
template <typename T>
int64_t PassOver(const ukernel::FoldFunctions<T>& folds, Before<T> before, const T* row, int64_t i, int64_t n,
                 const Entry<T>& last, int64_t chunk) {
  const ukernel::FoldKind kind = before.largest ? ukernel::FoldKind::kMax : ukernel::FoldKind::kMin;
  for (; i < n; i += chunk) {
    const T best = folds.fold({.kind = kind, .n = static_cast<size_t>(std::min(chunk, n - i)), .x = row + i});
    if (best != best || before({best, i}, last)) return i;
  }
  return n;
}

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
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + shape.rank() : axis_);
    const int64_t n = shape[axis], k = context.outputs[0].shape[axis];
    const int64_t inner = shape.num_elements(axis + 1, shape.rank()), lines = shape.num_elements(0, axis) * inner;
    std::unique_ptr<CpuStep> step;
    QUERN_RETURN_IF_ERROR(DispatchType(TopKTypes{}, context.inputs[0].dtype, [&]<typename T>() {
      const size_t heap_bytes = static_cast<size_t>(k) * sizeof(Entry<T>);
      const int concurrency = context.concurrency;
      const Before<T> before{largest_};
      const ukernel::FoldFunctions<T> folds = rows_.Of<T>();
      auto run = [=](const StepContext& c) {
        if (k == 0) return OkStatus();
        const T* x = static_cast<const T*>(c.inputs[0]);
        T* values = static_cast<T*>(c.outputs[0]);
        auto* indices = static_cast<int64_t*>(c.outputs[1]);
        auto some = [&](int slot, int64_t begin, int64_t end) {
          auto* heap =
              reinterpret_cast<Entry<T>*>(static_cast<char*>(c.scratch) + static_cast<size_t>(slot) * heap_bytes);
          for (int64_t line = begin; line < end; ++line) {
            const T* row = x + line / inner * n * inner + line % inner;
            for (int64_t i = 0; i < k; ++i) heap[i] = {row[i * inner], i};
            std::make_heap(heap, heap + k, before);
            constexpr int64_t kChunk = 128;
            for (int64_t i = k; i < n;) {
              if (inner == 1) i = PassOver(folds, before, row, i, n, heap[0], kChunk);
              for (const int64_t end = std::min(n, i + kChunk); i < end; ++i) {
                const Entry<T> next{row[i * inner], i};
                if (!before(next, heap[0])) continue;
                std::pop_heap(heap, heap + k, before);
                heap[k - 1] = next;
                std::push_heap(heap, heap + k, before);
              }
            }
            std::sort_heap(heap, heap + k, before);
            const int64_t to = line / inner * k * inner + line % inner;
            for (int64_t i = 0; i < k; ++i) {
              if (values) values[to + i * inner] = heap[i].value;
              if (indices) indices[to + i * inner] = heap[i].index;
            }
          }
        };
        if (concurrency == 1 || lines * n <= kCostlyGrain) {
          some(0, 0, lines);
          return OkStatus();
        }
        return c.executor->ParallelFor(lines, std::max<int64_t>(1, kCostlyGrain / n), some, c.cancel);
      };
      QUERN_ASSIGN_OR_RETURN(step, MakeStep(run, heap_bytes * static_cast<size_t>(concurrency)));
      return OkStatus();
    }));
    return step;
  }
  KernelDescription Describe() const override { return rows_.Describe(dtype_, "a heap of k for each line"); }

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
