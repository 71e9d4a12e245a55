// GridSample of float32 over one to three spatial dimensions: the taps of a block of positions are worked out once,
// then every channel reads them; or with channels last, where each position reads vectors of all channels.
#include "ops/common/grid_taps.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

constexpr int64_t kBlock = 64;  // positions of one task

// What a block of positions reads of a plane: tap t of position i, t < count[i], is at t * tap_step + i * step.
// Positions with fewer than `most` of them, at the border, are listed as well.
struct BlockTaps {
  int64_t most, tap_step, step;
  int64_t* offsets;
  float* weights;
  int32_t* count;
  int32_t* partial;

  static size_t Bytes(int64_t most) {
    const size_t bytes = static_cast<size_t>(kBlock * most) * (sizeof(int64_t) + sizeof(float)) +
                         static_cast<size_t>(2 * kBlock) * sizeof(int32_t);
    return (bytes + 63) / 64 * 64;
  }
  // together: the taps of one position are neighbours, else those of neighbouring positions.
  static BlockTaps At(void* scratch, int64_t most, bool together) {
    BlockTaps t{};
    t.most = most;
    t.tap_step = together ? 1 : kBlock;
    t.step = together ? most : 1;
    t.offsets = static_cast<int64_t*>(scratch);
    t.weights = reinterpret_cast<float*>(t.offsets + kBlock * most);
    t.count = reinterpret_cast<int32_t*>(t.weights + kBlock * most);
    t.partial = t.count + kBlock;
    return t;
  }
  float SumOf(int64_t i, const float* x) const {
    float sum = 0;
    for (int64_t k = 0; k < count[i]; ++k) {
      const int64_t t = k * tap_step + i * step;
      sum += weights[t] * x[offsets[t]];
    }
    return sum;
  }
};

class GridSampleKernel final : public CpuKernel {
 public:
  GridSampleKernel(const Node& node, GridAttributes attributes, const CpuConfig& config)
      : row_(VectorRowFor(config)), attributes_(attributes), channels_last_(node.domain() == kCpuDomain) {}

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &in = context.inputs[0].shape, &grid = context.inputs[1].shape;
    const int rank = in.rank() - 2;
    if (grid.rank() != in.rank() || grid[0] != in[0] || grid.back() != rank) {
      return InvalidArgument("a grid of shape " + grid.ToString() + " does not fit an input of shape " + in.ToString());
    }
    if (context.outputs[0].shape.num_elements() == 0) return NothingToDo();
    if (in.num_elements() == 0 && attributes_.padding != GridPadding::kZeros) {
      return InvalidArgument("the input has shape " + in.ToString() + "; there is nothing to read");
    }
    const int first = channels_last_ ? 1 : 2;  // spatial dimension
    std::vector<GridAxis> axes;
    int64_t most = 1;
    for (int d = 0; d < rank; ++d) {
      axes.emplace_back(in[first + d], attributes_.align_corners);
      most *= attributes_.mode == GridMode::kNearest ? 1 : attributes_.mode == GridMode::kLinear ? 2 : 4;
    }
    const int64_t positions = grid.num_elements(1, rank + 1), blocks = (positions + kBlock - 1) / kBlock;
    const int64_t channels = channels_last_ ? in.back() : in[1], image_elements = in.num_elements(1, in.rank());
    const size_t slot_bytes = BlockTaps::Bytes(most);
    const Shape strides(in.ContiguousStrides().span().subspan(static_cast<size_t>(first), static_cast<size_t>(rank)));
    const int concurrency = context.concurrency;
    auto run = [=, axes = std::move(axes), attributes = attributes_, row = row_,
                last = channels_last_](const StepContext& c) {
      const auto task = [&](int slot, int64_t begin, int64_t end) {
        const BlockTaps taps =
            BlockTaps::At(static_cast<char*>(c.scratch) + static_cast<size_t>(slot) * slot_bytes, most, last);
        for (int64_t item = begin; item < end; ++item) {
          const int64_t image = item / blocks, o = item % blocks * kBlock, count = std::min(kBlock, positions - o);
          const float* at = static_cast<const float*>(c.inputs[1]) + (image * positions + o) * rank;
          const int64_t partial = FindTaps(attributes, axes, strides, at, count, taps);
          const float* x = static_cast<const float*>(c.inputs[0]) + image * image_elements;
          float* y = static_cast<float*>(c.outputs[0]) + image * channels * positions;
          if (last) {
            BlendChannels(*row, taps, count, channels, x, y + o * channels);
          } else {
            GatherPlanes(*row, taps, count, partial, channels, image_elements / channels, positions, x, y + o);
          }
        }
      };
      const int64_t work = kBlock * most * (channels + 8);
      const int64_t grain = std::max<int64_t>(1, kCheapGrain / work);
      return c.executor->ParallelFor(in[0] * blocks, grain, task, c.cancel, concurrency);
    };
    return MakeStep(std::move(run), slot_bytes * static_cast<size_t>(concurrency));
  }
  KernelDescription Describe() const override {
    return Described(*row_, channels_last_ ? "vectors of channels" : "taps of a block of positions, then all channels");
  }

 private:
  static void BlendChannels(const ukernel::VectorKernel& row, const BlockTaps& taps, int64_t count, int64_t channels,
                            const float* x, float* y) {
    for (int64_t i = 0; i < count; ++i) {
      row.blend({.taps = static_cast<size_t>(taps.count[i]),
                 .n = static_cast<size_t>(channels),
                 .x = x,
                 .offsets = taps.offsets + i * taps.step,
                 .weights = taps.weights + i * taps.step,
                 .y = y + i * channels});
    }
  }
  static void GatherPlanes(const ukernel::VectorKernel& row, const BlockTaps& taps, int64_t count, int64_t partial,
                           int64_t channels, int64_t in_plane, int64_t out_plane, const float* x, float* y) {
    for (int64_t channel = 0; channel < channels; ++channel, x += in_plane, y += out_plane) {
      if (partial < count) {
        row.gather_blend({.taps = static_cast<size_t>(taps.most),
                          .n = static_cast<size_t>(count),
                          .pitch = kBlock,
                          .x = x,
                          .offsets = taps.offsets,
                          .weights = taps.weights,
                          .y = y});
      }
      for (int64_t p = 0; p < partial; ++p) y[taps.partial[p]] = taps.SumOf(taps.partial[p], x);
    }
  }

  // Returns how many positions are partial.
  static int64_t FindTaps(const GridAttributes& attributes, const std::vector<GridAxis>& axes, const Shape& strides,
                          const float* at, int64_t count, const BlockTaps& taps) {
    const int rank = strides.rank();
    int32_t partial = 0;
    for (int64_t i = 0; i < count; ++i, at += rank) {
      int64_t* offsets = taps.offsets + i * taps.step;
      float* weights = taps.weights + i * taps.step;
      int64_t n = 1;
      offsets[0] = 0;
      weights[0] = 1;
      for (int d = 0; d < rank && n > 0; ++d) {
        // Each tap so far is seen at every place along this dimension.
        const AxisTaps axis = GridTaps(attributes, axes[static_cast<size_t>(d)], at[rank - 1 - d]);
        for (int k = axis.count - 1; k >= 0; --k) {
          for (int64_t t = 0; t < n; ++t) {
            const int64_t from = t * taps.tap_step, to = (k * n + t) * taps.tap_step;
            offsets[to] = offsets[from] + axis.index[k] * strides[d];
            weights[to] = weights[from] * static_cast<float>(axis.weight[k]);
          }
        }
        n *= axis.count;
      }
      taps.count[i] = static_cast<int32_t>(n);
      if (n == taps.most) continue;
      taps.partial[partial++] = static_cast<int32_t>(i);
      for (; n < taps.most; ++n) {  // may be read, but not used
        offsets[n * taps.tap_step] = 0;
        weights[n * taps.tap_step] = 0;
      }
    }
    return partial;
  }

  const ukernel::VectorKernel* row_;
  GridAttributes attributes_;
  bool channels_last_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  const Result<GridAttributes> attributes = ReadGridAttributes(node);
  if (!attributes.ok()) return attributes.status().message();
  const int rank = node.input(0)->type().rank() - 2;
  if (rank < 1 || rank > 3) return std::to_string(rank) + " spatial dimensions";
  if (std::string why = RejectUnlessType(node.input(0), {DType::kF32}); !why.empty()) return why;
  return RejectUnlessType(node.input(1), {DType::kF32});
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  QUERN_ASSIGN_OR_RETURN(const GridAttributes attributes, ReadGridAttributes(node));
  return std::unique_ptr<CpuKernel>(new GridSampleKernel(node, attributes, *context.config));
}

Status InferLast(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0), grid = c.input_shape(1);
  if (!x || !grid || x->size() < 3 || grid->size() != x->size()) {
    return c.Error("a batch, spatial dimensions and channels, and a grid of as many dimensions are needed");
  }
  Dims y(grid->begin(), grid->end() - 1);
  y.push_back(x->back());
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), std::move(y)));
  return OkStatus();
}

// The standard operator becomes this provider's by cpu_convert_windows where it has many channels.
constexpr CpuOp kOps[] = {{"", "GridSample", Reject, Compile},
                          {kCpuDomain, "GridSample", Reject, Compile, 0, InferLast}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsGridSample = kOps;

}  // namespace quern::cpu
