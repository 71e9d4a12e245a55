// Pools, channels last: this provider's MaxPool, AveragePool, GlobalMaxPool and GlobalAveragePool over
// [N, spatial..., C] with one or two spatial dimensions.
#include <limits>

#include "ops/common/pool.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

using ukernel::FoldKind;

std::string RejectRank(const Node& node) {
  const int rank = node.input(0)->type().rank();
  return rank == 3 || rank == 4 ? std::string() : std::to_string(rank) + "-D pooling";
}

std::string RejectMaxPool(const Node& node, const CpuConfig&) {
  if (node.output(1)) return "the indices output";
  if (std::string why = RejectRank(node); !why.empty()) return why;
  return RejectUnlessType(node.input(0), {DType::kF32, DType::kU8, DType::kI8});
}
std::string RejectFloatPool(const Node& node, const CpuConfig&) {
  if (std::string why = RejectRank(node); !why.empty()) return why;
  return RejectUnlessType(node.input(0), {DType::kF32});
}

// [N, spatial..., C] as [N, C, spatial...].
Shape ChannelsFirst(const Shape& s) {
  Shape r{s[0], s.back()};
  for (int d = 1; d + 1 < s.rank(); ++d) r.push_back(s[d]);
  return r;
}

// A pool over actual extents; dimension 0 of the window is always 1.
struct Pool {
  Window3 w{};
  int64_t images = 0, channels = 0;
  bool include_pad = false;
  bool average = false;

  int64_t image_in() const { return w.in_size() * channels; }
  int64_t image_out() const { return w.out_size() * channels; }
  // Taps of the window at o that lie inside the padded input of dimension d.
  int64_t TapsInPadded(int d, int64_t o) const {
    const int64_t start = o * w.stride[d] - w.pad_begin[d];
    const int64_t past = w.in[d] + w.pad_end[d] - start;
    return past <= 0 ? 0 : std::min(w.kernel[d], (past + w.dilation[d] - 1) / w.dilation[d]);
  }
};

// Offsets (elements) of taps [rows) x [cols) from the first of them.
void TapOffsets(const Pool& p, int64_t rows, int64_t cols, ptrdiff_t* offsets) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      *offsets++ = (r * p.w.dilation[1] * p.w.in[2] + c * p.w.dilation[2]) * p.channels;
    }
  }
}

// Largest elements of integers, or of anything without a micro-kernel.
template <typename T>
void MaxRows(int64_t rows, int64_t n, const T* x, const ptrdiff_t* offsets, T* y) {
  for (int64_t c = 0; c < n; ++c) y[c] = std::numeric_limits<T>::lowest();
  for (int64_t r = 0; r < rows; ++r) {
    const T* from = x + offsets[r];
    for (int64_t c = 0; c < n; ++c) y[c] = from[c] > y[c] ? from[c] : y[c];
  }
}

template <typename T>
Result<std::unique_ptr<CpuStep>> BindPool(const Pool& pool, const ukernel::VectorKernel* row, int concurrency) {
  const int64_t taps = pool.w.kernel_size();
  std::vector<ptrdiff_t> whole(static_cast<size_t>(taps));
  TapOffsets(pool, pool.w.kernel[1], pool.w.kernel[2], whole.data());
  // Windows that reach over the border have a list of their own: one per slot in the scratch.
  const size_t scratch = static_cast<size_t>(concurrency) * whole.size() * sizeof(ptrdiff_t);
  auto run = [pool, row, taps, concurrency, whole = std::move(whole)](const StepContext& c) {
    const Window3& w = pool.w;
    const auto rows = [&](int slot, int64_t begin, int64_t end) {
      ptrdiff_t* const partial = static_cast<ptrdiff_t*>(c.scratch) + static_cast<int64_t>(slot) * taps;
      for (int64_t item = begin; item < end; ++item) {
        const int64_t image = item / w.out[1], o1 = item % w.out[1];
        const T* x = static_cast<const T*>(c.inputs[0]) + image * pool.image_in();
        T* y = static_cast<T*>(c.outputs[0]) + image * pool.image_out() + o1 * w.out[2] * pool.channels;
        const KernelRange a = ValidKernel(w, 1, o1);
        for (int64_t o2 = 0; o2 < w.out[2]; ++o2, y += pool.channels) {
          const KernelRange b = ValidKernel(w, 2, o2);
          const int64_t high = a.last - a.first, wide = b.last - b.first;
          const ptrdiff_t* offsets = whole.data();
          if (high * wide != taps) {
            TapOffsets(pool, high, wide, partial);
            offsets = partial;
          }
          const T* first = x + (high * wide == 0 ? 0 : (a.input_at_first * w.in[2] + b.input_at_first) * pool.channels);
          if constexpr (std::is_same_v<T, float>) {
            float scale = 1;
            if (pool.average) {
              const int64_t divisor =
                  pool.include_pad ? pool.TapsInPadded(1, o1) * pool.TapsInPadded(2, o2) : high * wide;
              scale = divisor == 0 ? 0.0f : 1.0f / static_cast<float>(divisor);
            }
            row->fold_rows({.kind = pool.average ? FoldKind::kSum : FoldKind::kMax,
                            .rows = static_cast<size_t>(high * wide),
                            .n = static_cast<size_t>(pool.channels),
                            .x = first,
                            .offsets = offsets,
                            .scale = scale,
                            .y = y});
          } else {
            static_cast<void>(row);  // float32's
            MaxRows(high * wide, pool.channels, first, offsets, y);
          }
        }
      }
    };
    const int64_t row_work = w.out[2] * pool.channels * std::min<int64_t>(taps, 64);
    const int64_t grain = std::max<int64_t>(1, 2 * kCheapGrain / std::max<int64_t>(1, row_work));
    return c.executor->ParallelFor(pool.images * w.out[1], grain, rows, c.cancel, concurrency);
  };
  return MakeStep(std::move(run), scratch);
}

class PoolKernel final : public CpuKernel {
 public:
  PoolKernel(const Node& node, const CpuConfig& config) : node_(node), row_(VectorRowFor(config)) {}

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &in = context.inputs[0].shape, &out = context.outputs[0].shape;
    if (out.num_elements() == 0) return NothingToDo();
    Pool p;
    QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(node_, in.rank() - 2, std::nullopt));
    QUERN_ASSIGN_OR_RETURN(p.w, MakeWindow3(node_, window, ChannelsFirst(in), ChannelsFirst(out)));
    p.images = in[0];
    p.channels = in.back();
    p.average = node_.op_type() == "AveragePool";
    p.include_pad = node_.GetInt("count_include_pad", 0) != 0;
    switch (context.inputs[0].dtype) {
      case DType::kU8:
        return BindPool<uint8_t>(p, row_, context.concurrency);
      case DType::kI8:
        return BindPool<int8_t>(p, row_, context.concurrency);
      default:
        return BindPool<float>(p, row_, context.concurrency);
    }
  }
  KernelDescription Describe() const override {
    if (node_.input(0)->type().dtype != DType::kF32) return Described(node_.op_type() + " (bytes)", "plain loop");
    return Described(*row_, node_.op_type() + ", each window as a fold of pixels");
  }

 private:
  const Node& node_;
  const ukernel::VectorKernel* row_;
};

class GlobalPoolKernel final : public CpuKernel {
 public:
  GlobalPoolKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)), kind_(node.op_type() == "GlobalMaxPool" ? FoldKind::kMax : FoldKind::kSum) {}

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& in = context.inputs[0].shape;
    if (context.outputs[0].shape.num_elements() == 0) return NothingToDo();
    const int64_t pixels = in.num_elements(1, in.rank() - 1), channels = in.back();
    if (pixels == 0) return InvalidArgument("the input has no elements to pool");
    constexpr int64_t kBlock = 64;  // channels of one task: what a fold holds in registers
    const int64_t blocks = (channels + kBlock - 1) / kBlock;
    return MakeStep([=, images = in[0], row = row_, kind = kind_](const StepContext& c) {
      return ForItems(c, images * blocks, pixels * kBlock, 2 * kCheapGrain, [&](int64_t item) {
        const int64_t image = item / blocks, first = item % blocks * kBlock;
        row->fold_rows({.kind = kind,
                        .rows = static_cast<size_t>(pixels),
                        .n = static_cast<size_t>(std::min(kBlock, channels - first)),
                        .x = static_cast<const float*>(c.inputs[0]) + image * pixels * channels + first,
                        .row_stride = channels,
                        .scale = kind == FoldKind::kSum ? 1.0f / static_cast<float>(pixels) : 1.0f,
                        .y = static_cast<float*>(c.outputs[0]) + image * channels + first});
      });
    });
  }
  KernelDescription Describe() const override { return Described(*row_, "a fold of all pixels"); }

 private:
  const ukernel::VectorKernel* row_;
  FoldKind kind_;
};

template <typename Kernel>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new Kernel(node, *context.config));
}

Status InferPoolLast(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0);
  if (!x || x->size() < 3) return c.Error("a batch, spatial dimensions and channels are needed");
  QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(c.node(), static_cast<int>(x->size()) - 2, std::nullopt));
  QUERN_ASSIGN_OR_RETURN(const Dims out, WindowOutput(c.node(), window, Dims(x->begin() + 1, x->end() - 1)));
  Dims y = {x->front()};
  y.insert(y.end(), out.begin(), out.end());
  y.push_back(x->back());
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), std::move(y)));
  return OkStatus();
}

Status InferGlobalPoolLast(InferContext& c) {
  std::optional<Dims> x = c.input_shape(0);
  if (!x || x->size() < 3) return c.Error("a batch, spatial dimensions and channels are needed");
  for (size_t d = 1; d + 1 < x->size(); ++d) (*x)[d] = 1;
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), std::move(x)));
  return OkStatus();
}

// The standard operators become this provider's by cpu_convert_windows.
constexpr CpuOp kOps[] = {
    {"", "MaxPool", RejectMaxPool, nullptr},
    {"", "AveragePool", RejectFloatPool, nullptr},
    {"", "GlobalMaxPool", RejectFloatPool, nullptr},
    {"", "GlobalAveragePool", RejectFloatPool, nullptr},
    {kCpuDomain, "MaxPool", RejectMaxPool, Compile<PoolKernel>, 0, InferPoolLast},
    {kCpuDomain, "AveragePool", RejectFloatPool, Compile<PoolKernel>, 0, InferPoolLast},
    {kCpuDomain, "GlobalMaxPool", RejectFloatPool, Compile<GlobalPoolKernel>, 0, InferGlobalPoolLast},
    {kCpuDomain, "GlobalAveragePool", RejectFloatPool, Compile<GlobalPoolKernel>, 0, InferGlobalPoolLast},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsPool = kOps;

}  // namespace quern::cpu
