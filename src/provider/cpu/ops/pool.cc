// Pools, channels last: this provider's MaxPool, AveragePool, LpPool and their global forms over [N, spatial..., C]
// with one to three spatial dimensions. Attribute `planes`: of [N, C, spatial...] (cpu_pool_planes).
#include "provider/cpu/common/indexed_max_pool.h"
#include "provider/cpu/common/plane_pool.h"

namespace quern::cpu {
namespace {

std::string RejectRank(const Node& node) {
  const int rank = node.input(0)->type().rank();
  return rank >= 3 && rank <= 5 ? std::string() : std::to_string(rank) + "-D pooling";
}

std::string RejectMaxPool(const Node& node, const CpuConfig&) {
  if (std::string why = RejectRank(node); !why.empty()) return why;
  return RejectUnlessType(node.input(0), {DType::kF32, DType::kF64, DType::kU8, DType::kI8});
}
std::string RejectMaxPoolLast(const Node& node, const CpuConfig& config) {
  return node.output(1) ? "the indices output" : RejectMaxPool(node, config);
}
std::string RejectFloatPool(const Node& node, const CpuConfig&) {
  if (std::string why = RejectRank(node); !why.empty()) return why;
  return RejectUnlessType(node.input(0), {DType::kF32, DType::kF64});
}
std::string RejectLpPool(const Node& node, const CpuConfig& config) {
  if (node.GetInt("p", 2) < 1) return "p below 1";
  return RejectFloatPool(node, config);
}

// [N, spatial..., C] as [N, C, spatial...].
Shape ChannelsFirst(const Shape& s) {
  Shape r{s[0], s.back()};
  for (int d = 1; d + 1 < s.rank(); ++d) r.push_back(s[d]);
  return r;
}

// Whether lines are folded over the other dimensions first, into a line of the input's width whose windows are folded
// then: k rows and k columns in place of k x k taps.
bool FoldsByLines(const Pool& p) {
  if (p.fold.p > 0) return false;
  const int64_t rows = p.w.kernel[0] * p.w.kernel[1], columns = p.w.kernel[2];
  // The line goes through memory once more.
  return p.w.in[2] * (rows + 4) + p.w.out[2] * columns < p.w.out[2] * rows * columns;
}

// line[i, c] = fold over deep x high rows of x[row, i, c], for all pixels i of a line of the input. `offsets` has room
// for as many numbers as there are rows.
template <typename T>
void FoldToLine(const Pool& p, const FoldRows& folds, int64_t deep, int64_t high, const T* x, ptrdiff_t* offsets,
                T* line) {
  TapOffsets(p, deep, high, 1, offsets);
  const bool dense = p.from_pixel == p.channels;
  p.fold.Run<T>(folds, {.rows = static_cast<size_t>(deep * high),
                        .n = static_cast<size_t>(dense ? p.w.in[2] * p.channels : p.channels),
                        .x = x,
                        .offsets = offsets,
                        .scale = 1,
                        .y = line,
                        .windows = static_cast<size_t>(dense ? 1 : p.w.in[2]),
                        .x_step = p.from_pixel,
                        .y_step = p.channels});
}

template <typename T>
Result<std::unique_ptr<CpuStep>> BindPool(const Pool& pool, const FoldRows& folds, int concurrency) {
  // A window may be larger than the input, of which the rest is padding.
  int64_t taps = 1;
  bool fits = true;
  for (int d = 0; d < 3; ++d) {
    taps *= std::min(pool.w.kernel[d], pool.w.in[d]);
    fits = fits && pool.w.kernel[d] <= pool.w.in[d];
  }
  std::vector<ptrdiff_t> whole(static_cast<size_t>(fits ? taps : 0));
  if (fits) TapOffsets(pool, pool.w.kernel[0], pool.w.kernel[1], pool.w.kernel[2], whole.data());
  // Output columns [inside_begin, inside_end) whose windows do not reach over a line's ends.
  int64_t inside_begin = 0, inside_end = pool.w.out[2];
  const auto inside = [&](int64_t o2) {
    const KernelRange e = ValidKernel(pool.w, 2, o2);
    return e.last - e.first == pool.w.kernel[2];
  };
  while (inside_begin < inside_end && !inside(inside_begin)) ++inside_begin;
  while (inside_begin < inside_end && !inside(inside_end - 1)) --inside_end;
  // Windows that reach over the border have a list of their own, one per slot in the scratch, before the slot's line.
  const bool by_lines = FoldsByLines(pool);
  const int64_t list_bytes = taps * static_cast<int64_t>(sizeof(ptrdiff_t));
  const int64_t line_bytes = by_lines ? pool.w.in[2] * pool.channels * static_cast<int64_t>(sizeof(T)) : 0;
  const int64_t slot_bytes = (list_bytes + line_bytes + 63) / 64 * 64;
  auto run = [=, whole = std::move(whole)](const StepContext& c) {
    const Window3& w = pool.w;
    const int64_t lines = w.out[0] * w.out[1];
    const auto rows = [&](int slot, int64_t begin, int64_t end) {
      char* const scratch = static_cast<char*>(c.scratch) + slot * slot_bytes;
      auto* const partial = reinterpret_cast<ptrdiff_t*>(scratch);
      T* const line = reinterpret_cast<T*>(scratch + list_bytes);
      for (int64_t item = begin; item < end; ++item) {
        const int64_t image = item / lines, o0 = item % lines / w.out[1], o1 = item % w.out[1];
        const T* x = static_cast<const T*>(c.inputs[0]) + image * pool.image_in();
        T* y = static_cast<T*>(c.outputs[0]) + item * w.out[2] * pool.to_pixel;
        const KernelRange a = ValidKernel(w, 0, o0), b = ValidKernel(w, 1, o1);
        const int64_t deep = a.last - a.first, high = b.last - b.first;
        const int64_t first_row = a.input_at_first * w.in[1] + b.input_at_first;
        const bool has_line = by_lines && deep * high > 0;
        if (has_line) FoldToLine(pool, folds, deep, high, x + first_row * w.in[2] * pool.from_pixel, partial, line);
        for (int64_t o2 = 0, windows; o2 < w.out[2]; o2 += windows, y += windows * pool.to_pixel) {
          const KernelRange e = ValidKernel(w, 2, o2);
          // Windows that lie between the borders of the line, together.
          windows = inside_begin <= o2 && o2 < inside_end ? inside_end - o2 : 1;
          const int64_t wide = e.last - e.first, count = deep * high * wide;
          const int64_t o[3] = {o0, o1, o2};
          const double divisor = pool.include_pad ? TapsInPadded(w, o) : static_cast<double>(count);
          const double scale = divisor == 0 ? 0 : 1 / divisor;
          ukernel::RowsFold<T> fold = {.n = static_cast<size_t>(pool.channels),
                                       .scale = pool.fold.average ? static_cast<T>(scale) : T{1},
                                       .y = y,
                                       .windows = static_cast<size_t>(windows),
                                       .y_step = pool.to_pixel};
          if (has_line) {
            fold.rows = static_cast<size_t>(wide);
            fold.x = line + (wide == 0 ? 0 : e.input_at_first * pool.channels);
            fold.row_stride = w.dilation[2] * pool.channels;
            fold.x_step = w.stride[2] * pool.channels;
          } else {
            fold.rows = static_cast<size_t>(count);
            fold.x = x + (count == 0 ? 0 : (first_row * w.in[2] + e.input_at_first) * pool.from_pixel);
            fold.offsets = whole.data();
            if (!fits || count != taps) {
              TapOffsets(pool, deep, high, wide, partial);
              fold.offsets = partial;
            }
            fold.x_step = w.stride[2] * pool.from_pixel;
          }
          pool.fold.Run<T>(folds, fold);
        }
      }
    };
    const int64_t row_work = w.out[2] * pool.channels * std::min<int64_t>(taps, 64);
    const int64_t grain = std::max<int64_t>(1, 2 * kCheapGrain / std::max<int64_t>(1, row_work));
    return c.executor->ParallelFor(pool.images * lines, grain, rows, c.cancel, concurrency);
  };
  return MakeStep(std::move(run), static_cast<size_t>(slot_bytes * concurrency));
}

template <typename T>
Result<std::unique_ptr<CpuStep>> BindByForm(const Pool& pool, const FoldRows& folds, int concurrency) {
  return FoldsByPlanes(pool) ? BindPlanePool<T>(pool, folds, concurrency) : BindPool<T>(pool, folds, concurrency);
}

class PoolKernel final : public CpuKernel {
 public:
  PoolKernel(const Node& node, const CpuConfig& config)
      : node_(node), rows_(config), planes_(node.GetInt("planes", 0) != 0) {}
  uint64_t strided_inputs() const override { return planes_ ? 0 : 1; }
  uint64_t strided_outputs() const override { return planes_ ? 0 : 1; }
  bool TakesInputStrides(size_t i, const Shape& shape, const Shape& strides) const override {
    return CpuKernel::TakesInputStrides(i, shape, strides) && HasEvenRows(shape, strides, 0);
  }
  bool TakesOutputStrides(size_t i, const Shape& shape, const Shape& strides) const override {
    return CpuKernel::TakesOutputStrides(i, shape, strides) && HasEvenRows(shape, strides, 0);
  }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &in = context.inputs[0].shape, &out = context.outputs[0].shape;
    if (out.num_elements() == 0) return NothingToDo();
    Pool p;
    QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(node_, in.rank() - 2, std::nullopt));
    QUERN_ASSIGN_OR_RETURN(
        p.w, MakeWindow3(node_, window, planes_ ? in : ChannelsFirst(in), planes_ ? out : ChannelsFirst(out)));
    p.images = planes_ ? in[0] * in[1] : in[0];
    p.channels = planes_ ? 1 : in.back();
    const auto from = planes_ ? 1 : EvenStride(in, context.inputs[0].strides, 0, in.rank() - 2);
    const auto to = planes_ ? 1 : EvenStride(out, context.outputs[0].strides, 0, out.rank() - 2);
    if (!from || !to) return Internal("pixels that are not evenly apart");
    p.from_pixel = *from;
    p.to_pixel = *to;
    p.fold = Fold::Of(node_);
    p.include_pad = node_.GetInt("count_include_pad", 0) != 0;
    switch (context.inputs[0].dtype) {
      case DType::kU8:
        return BindByForm<uint8_t>(p, rows_, context.concurrency);
      case DType::kI8:
        return BindByForm<int8_t>(p, rows_, context.concurrency);
      case DType::kF64:
        return BindByForm<double>(p, rows_, context.concurrency);
      default:
        return BindByForm<float>(p, rows_, context.concurrency);
    }
  }
  KernelDescription Describe() const override {
    return rows_.Describe(node_.input(0)->type().dtype, node_.op_type() + ", each window as a fold of pixels");
  }

 private:
  const Node& node_;
  const FoldRows rows_;
  const bool planes_;
};

class GlobalPoolKernel final : public CpuKernel {
 public:
  GlobalPoolKernel(const Node& node, const CpuConfig& config)
      : rows_(config), dtype_(node.input(0)->type().dtype), fold_(Fold::Of(node)) {}

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& in = context.inputs[0].shape;
    if (context.outputs[0].shape.num_elements() == 0) return NothingToDo();
    const int64_t pixels = in.num_elements(1, in.rank() - 1), channels = in.back();
    if (pixels == 0) return InvalidArgument("the input has no elements to pool");
    return dtype_ == DType::kF64 ? BindGlobal<double>(in[0], pixels, channels)
                                 : BindGlobal<float>(in[0], pixels, channels);
  }
  KernelDescription Describe() const override { return rows_.Describe(dtype_, "a fold of all pixels"); }

 private:
  template <typename T>
  Result<std::unique_ptr<CpuStep>> BindGlobal(int64_t images, int64_t pixels, int64_t channels) const {
    constexpr int64_t kBlock = 64;  // channels of one task: what a fold of floats holds in registers
    const int64_t blocks = (channels + kBlock - 1) / kBlock;
    return MakeStep([=, folds = rows_, fold = fold_](const StepContext& c) {
      return ForItems(c, images * blocks, pixels * kBlock, 2 * kCheapGrain, [&](int64_t item) {
        const int64_t image = item / blocks, first = item % blocks * kBlock, n = std::min(kBlock, channels - first);
        fold.Run<T>(folds, {.rows = static_cast<size_t>(pixels),
                            .n = static_cast<size_t>(n),
                            .x = static_cast<const T*>(c.inputs[0]) + image * pixels * channels + first,
                            .row_stride = channels,
                            .scale = fold.average ? 1 / static_cast<T>(pixels) : T{1},
                            .y = static_cast<T*>(c.outputs[0]) + image * channels + first});
      });
    });
  }

  const FoldRows rows_;
  const DType dtype_;
  const Fold fold_;
};

template <typename Kernel>
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new Kernel(node, *context.config));
}

Status InferPoolLast(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0);
  if (!x || x->size() < 3) return c.Error("a batch, spatial dimensions and channels are needed");
  QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(c.node(), static_cast<int>(x->size()) - 2, std::nullopt));
  const bool planes = c.node().GetInt("planes", 0) != 0;
  const auto first = x->begin() + (planes ? 2 : 1);
  QUERN_ASSIGN_OR_RETURN(const Dims out,
                         WindowOutput(c.node(), window, Dims(first, first + static_cast<ptrdiff_t>(x->size()) - 2)));
  Dims y = *x;
  std::ranges::copy(out, y.begin() + (planes ? 2 : 1));
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

// The standard operators become this provider's by cpu_convert_windows, but for a MaxPool with indices.
constexpr CpuOp kOps[] = {
    {"", "MaxPool", RejectMaxPool, CompileIndexedMaxPool},
    {"", "AveragePool", RejectFloatPool, nullptr},
    {"", "LpPool", RejectLpPool, nullptr},
    {"", "GlobalMaxPool", RejectFloatPool, nullptr},
    {"", "GlobalAveragePool", RejectFloatPool, nullptr},
    {"", "GlobalLpPool", RejectLpPool, nullptr},
    {kCpuDomain, "MaxPool", RejectMaxPoolLast, Compile<PoolKernel>, 0, InferPoolLast},
    {kCpuDomain, "AveragePool", RejectFloatPool, Compile<PoolKernel>, 0, InferPoolLast},
    {kCpuDomain, "LpPool", RejectLpPool, Compile<PoolKernel>, 0, InferPoolLast},
    {kCpuDomain, "GlobalMaxPool", RejectFloatPool, Compile<GlobalPoolKernel>, 0, InferGlobalPoolLast},
    {kCpuDomain, "GlobalAveragePool", RejectFloatPool, Compile<GlobalPoolKernel>, 0, InferGlobalPoolLast},
    {kCpuDomain, "GlobalLpPool", RejectLpPool, Compile<GlobalPoolKernel>, 0, InferGlobalPoolLast},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsPool = kOps;

}  // namespace quern::cpu
