// DeformConv of float32 over two dimensions: what a block of output positions reads becomes an image of kernel taps,
// channels last, of which a convolution without overlap gives the outputs.
#include <algorithm>
#include <atomic>
#include <string>

#include "kernels/convolution.h"
#include "ops/common/window.h"
#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

using kernels::ConvAlgorithm;
using kernels::ConvArgs;
using kernels::ConvProblem;

constexpr int kWeights = 1, kOffset = 2, kBias = 3, kMask = 4;
constexpr int64_t kMostPositions = 128;  // of a block: where they read stays in L1
constexpr int64_t kPixels = 64;          // that are transposed at once
constexpr int64_t kFewChannels = 16;     // fewer take less time than a call of a row
// Extents and padding are at most so much, and larger offsets count as kFar: sums fit in 32 bits.
constexpr int64_t kLargestExtent = int64_t{1} << 27;
constexpr char kTooLarge[] = "extents or padding of more than 2^27";
constexpr float kFar = 1 << 30;
constexpr ptrdiff_t kF32 = sizeof(float);

size_t Aligned(int64_t floats) { return (static_cast<size_t>(floats) * sizeof(float) + 63) / 64 * 64; }

struct Extents {
  int64_t images, channels, in_h, in_w, out_channels, out_h, out_w, kernel_h, kernel_w, groups, offset_groups;
  int64_t in_plane() const { return in_h * in_w; }
  int64_t out_plane() const { return out_h * out_w; }
  int64_t taps() const { return kernel_h * kernel_w; }
};

// Splits base[i] + offset[i], exactly, into a whole number and a rest in [0, 1). Larger offsets become kFar and
// those that are no number -kFar, outside of every image.
void Split(const int32_t* base, int32_t shift, const float* offset, int64_t n, int32_t* whole, float* rest) {
  for (int64_t i = 0; i < n; ++i) {
    const float above = offset[i] > -kFar ? offset[i] : -kFar, o = above < kFar ? above : kFar;
    const auto cut = static_cast<int32_t>(o);
    const int32_t floor = cut - (static_cast<float>(cut) > o ? 1 : 0);
    const float r = o - static_cast<float>(floor);
    // The rest of an offset just below a whole number is rounded to 1.
    whole[i] = base[i] + shift + floor + (r >= 1 ? 1 : 0);
    rest[i] = r >= 1 ? 0.0f : r;
  }
}

// y[i] = sum over four taps of weights[t] * x[offsets[t] + i].
void BlendFew(const float* x, const ptrdiff_t* offsets, const float* weights, int64_t n, float* y) {
  const float *p = x + offsets[0], *q = x + offsets[1], *r = x + offsets[2], *s = x + offsets[3];
  const float a = weights[0], b = weights[1], c = weights[2], d = weights[3];
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    float sums[4];
    for (int64_t k = 0; k < 4; ++k) sums[k] = (a * p[i + k] + b * q[i + k]) + (c * r[i + k] + d * s[i + k]);
    for (int64_t k = 0; k < 4; ++k) y[i + k] = sums[k];
  }
  for (; i < n; ++i) y[i] = (a * p[i] + b * q[i]) + (c * r[i] + d * s[i]);
}

// Where the positions of a block read for one kernel tap: rest (u, v) of the way from pixel (row, column) to the next
// ones.
struct Places {
  int32_t rows[kMostPositions], columns[kMostPositions];
  float u[kMostPositions], v[kMostPositions];
  int32_t between[kMostPositions];  // four pixels, all inside and none with a weight of 0

  void Find(const Extents& e, int64_t n) {
    const auto last_row = static_cast<int32_t>(e.in_h - 1), last_column = static_cast<int32_t>(e.in_w - 1);
    for (int64_t i = 0; i < n; ++i) {
      between[i] = static_cast<int32_t>(rows[i] >= 0) & static_cast<int32_t>(rows[i] < last_row) &
                   static_cast<int32_t>(columns[i] >= 0) & static_cast<int32_t>(columns[i] < last_column) &
                   static_cast<int32_t>(u[i] != 0) & static_cast<int32_t>(v[i] != 0);
    }
  }
  // The pixels of position i that are inside and have a weight, which is multiplied by `factor`. Returns their number.
  size_t PixelsOf(int64_t i, const Extents& e, float factor, ptrdiff_t* offsets, float* weights) const {
    const ptrdiff_t at = (static_cast<ptrdiff_t>(rows[i]) * e.in_w + columns[i]) * e.channels;
    const float row_weights[] = {1 - u[i], u[i]}, column_weights[] = {1 - v[i], v[i]};
    size_t count = 0;
    for (int j = 0; j < 4; ++j) {
      const int32_t down = j / 2, right = j % 2;
      const float weight = row_weights[down] * column_weights[right];
      if (!between[i] && (weight == 0 || rows[i] + down < 0 || rows[i] + down >= e.in_h || columns[i] + right < 0 ||
                          columns[i] + right >= e.in_w)) {
        continue;
      }
      offsets[count] = at + (down * e.in_w + right) * e.channels;
      weights[count++] = factor * weight;
    }
    return count;
  }
};

class DeformConvKernel final : public CpuKernel {
 public:
  static Result<std::unique_ptr<CpuKernel>> Create(const Node& node, const CompileContext& context);
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override;
  uint64_t packed_inputs() const override { return runs_weights_ ? 0 : 1u << kWeights; }

  bool sums_products() const override { return true; }
  KernelDescription Describe() const override {
    KernelDescription d;
    if (conv_.algorithm() == ConvAlgorithm::kDirect) {
      const kernels::Conv& c = conv_.direct();
      const auto m = static_cast<size_t>(block_);
      d = DescribeRow(c.gemm_problem(), config_, c.weights().choice(), c.RowFor(m), m);
    } else {
      d.kernel = ukernel::Name(*conv_.depthwise().row()).text;
    }
    d.kernel = std::string(ukernel::Name(*row_).text) + " + " + d.kernel;
    d.why = "a block of positions reads its taps, then a convolution of them" + (d.why.empty() ? "" : ": " + d.why);
    if (runs_weights_) d.why += ", weights packed by each slot of a run";
    d.packed_bytes = runs_weights_ ? 0 : conv_.packed_bytes();
    return d;
  }

 private:
  friend class DeformConvStep;
  int Concurrency(int concurrency) const {
    if (conv_.algorithm() != ConvAlgorithm::kDirect) return concurrency;
    const kernels::GemmKernel& row = *conv_.direct().RowFor(static_cast<size_t>(block_));
    return kernels::RowConcurrency(row, config_.cpu.facts(), concurrency);
  }

  CpuConfig config_;
  const ukernel::VectorKernel* row_ = nullptr;
  Window window_;
  Shape weights_shape_;  // [M, C/g, kernel...]
  int64_t groups_ = 1, offset_groups_ = 1;
  int64_t block_ = 1;  // positions, at most
  bool runs_weights_ = false;
  kernels::Convolution conv_;
};

class DeformConvStep final : public CpuStep {
 public:
  DeformConvStep(const DeformConvKernel& kernel, const Extents& e, bool bias, bool mask, int concurrency)
      : kernel_(kernel), e_(e), mask_(mask), concurrency_(kernel.Concurrency(concurrency)) {
    // Blocks of about the same length.
    blocks_ = (e.out_plane() - 1) / kernel.block_ + 1;
    block_ = (e.out_plane() - 1) / blocks_ + 1;
    blocks_ = (e.out_plane() - 1) / block_ + 1;
    op_.kind = ukernel::EpilogueKind::kAddVectorN;
    op_count_ = bias ? 1 : 0;
    whole_ = kernel.conv_.Plan(Args(block_), 1);
    last_ = kernel.conv_.Plan(Args(e.out_plane() - (blocks_ - 1) * block_), 1);
    workspace_bytes_ = std::max(whole_.workspace_bytes, last_.workspace_bytes);
    result_offset_ = Aligned(block_ * e.taps() * e.channels);
    workspace_offset_ = result_offset_ + Aligned(block_ * e.out_channels);
    slot_bytes_ = (workspace_offset_ + workspace_bytes_ + 63) / 64 * 64;
  }
  size_t scratch_bytes() const override { return slots_offset() + slot_bytes_ * static_cast<size_t>(concurrency_); }
  Status Run(const StepContext& c) const override;

 private:
  // Scratch: the images, channels last; a number for each slot; the slots.
  size_t packed_offset() const { return Aligned(e_.images * e_.in_plane() * e_.channels); }
  size_t slots_offset() const { return packed_offset() + Aligned(concurrency_); }

  ConvArgs Args(int64_t positions) const {
    ConvArgs a{.in_h = 1, .in_w = static_cast<size_t>(positions * e_.taps())};
    a.in_pixel_stride = e_.channels * kF32;
    a.in_row_stride = a.in_image_stride = positions * e_.taps() * a.in_pixel_stride;
    a.dst_pixel_stride = e_.out_channels * kF32;
    a.dst_image_stride = positions * a.dst_pixel_stride;
    a.ops = &op_;
    a.op_count = op_count_;
    return a;
  }
  // Reads for the positions [first, first + count) of an image into taps [position][tap][channel].
  void Read(const StepContext& c, const float* images, int64_t image, int64_t first, int64_t count, float* taps) const;

  const DeformConvKernel& kernel_;
  const Extents e_;
  const bool mask_;
  const int concurrency_;
  int64_t block_, blocks_;  // positions of one, blocks of an image
  ukernel::EpilogueOp op_;
  size_t op_count_;
  kernels::ConvolutionPlan whole_, last_;  // of a block, and of an image's last one
  size_t workspace_bytes_, result_offset_, workspace_offset_, slot_bytes_;
};

void DeformConvStep::Read(const StepContext& c, const float* images, int64_t image, int64_t first, int64_t count,
                          float* taps) const {
  const Window& w = kernel_.window_;
  const int64_t width = e_.channels / e_.offset_groups, plane = e_.out_plane();
  int32_t rows[kMostPositions], columns[kMostPositions];  // of the window, without padding
  for (int64_t i = 0, row = first / e_.out_w, column = first % e_.out_w; i < count; ++i) {
    rows[i] = static_cast<int32_t>(row * w.strides[0]);
    columns[i] = static_cast<int32_t>(column * w.strides[1]);
    if (++column == e_.out_w) ++row, column = 0;
  }
  Places places;
  for (int64_t g = 0; g < e_.offset_groups; ++g) {
    const float* x = images + image * e_.in_plane() * e_.channels + g * width;
    for (int64_t k = 0; k < e_.taps(); ++k) {
      const int64_t sample = (image * e_.offset_groups + g) * e_.taps() + k;
      const float* offset = static_cast<const float*>(c.inputs[kOffset]) + 2 * sample * plane + first;
      const float* mask = mask_ ? static_cast<const float*>(c.inputs[kMask]) + sample * plane + first : nullptr;
      const auto shift = [&](int d, int64_t tap) {
        return static_cast<int32_t>(tap * w.dilations[d] - w.pads_begin[d]);
      };
      Split(rows, shift(0, k / e_.kernel_w), offset, count, places.rows, places.u);
      Split(columns, shift(1, k % e_.kernel_w), offset + plane, count, places.columns, places.v);
      places.Find(e_, count);
      float* to = taps + k * e_.channels + g * width;
      for (int64_t i = 0; i < count; ++i, to += e_.taps() * e_.channels) {
        ptrdiff_t offsets[4];
        float weights[4];
        const float factor = mask ? mask[i] : 1.0f;
        const size_t pixels = places.PixelsOf(i, e_, factor, offsets, weights);
        if (pixels == 0) {
          std::fill_n(to, width, 0 * factor);
        } else if (pixels == 4 && width < kFewChannels) {
          BlendFew(x, offsets, weights, width, to);
        } else {
          kernel_.row_->blend({.taps = pixels,
                               .n = static_cast<size_t>(width),
                               .x = x,
                               .offsets = offsets,
                               .weights = weights,
                               .y = to});
        }
      }
    }
  }
}

Status DeformConvStep::Run(const StepContext& c) const {
  auto* images = static_cast<float*>(c.scratch);
  const int64_t in_plane = e_.in_plane(), parts = (in_plane + kPixels - 1) / kPixels;
  QUERN_RETURN_IF_ERROR(ForItems(c, e_.images * parts, kPixels * e_.channels, kCheapGrain, [&](int64_t item) {
    const int64_t image = item / parts, pixel = item % parts * kPixels;
    kernel_.row_->transpose({.rows = static_cast<size_t>(std::min(kPixels, in_plane - pixel)),
                             .cols = static_cast<size_t>(e_.channels),
                             .x = static_cast<const float*>(c.inputs[0]) + image * e_.channels * in_plane + pixel,
                             .x_col = in_plane,
                             .y = images + (image * in_plane + pixel) * e_.channels,
                             .y_row = e_.channels});
  }));

  // Whether a slot's workspace holds the weights that come with the run.
  auto* packed = reinterpret_cast<int32_t*>(static_cast<std::byte*>(c.scratch) + packed_offset());
  std::fill_n(packed, concurrency_, 0);
  Status failed;
  std::atomic<bool> any{false};
  const auto task = [&](int slot, int64_t begin, int64_t end) {
    std::byte* area = static_cast<std::byte*>(c.scratch) + slots_offset() + static_cast<size_t>(slot) * slot_bytes_;
    auto* taps = reinterpret_cast<float*>(area);
    auto* result = reinterpret_cast<float*>(area + result_offset_);
    InlineExecutor self;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t image = item / blocks_, first = item % blocks_ * block_;
      const int64_t count = std::min(block_, e_.out_plane() - first);
      Read(c, images, image, first, count, taps);
      ConvArgs args = Args(count);
      ukernel::EpilogueOp op = op_;
      if (op_count_ > 0) op.data = c.inputs[kBias];
      args.ops = &op;
      args.input = taps;
      args.dst = result;
      if (kernel_.runs_weights_) args.weights = c.inputs[kWeights];
      args.weights_are_packed = packed[slot] != 0;
      const Status status = kernel_.conv_.Run(
          count == block_ ? whole_ : last_, args,
          {.executor = &self, .workspace = area + workspace_offset_, .workspace_bytes = workspace_bytes_});
      if (!status.ok() && !any.exchange(true)) failed = status;
      packed[slot] = status.ok() ? 1 : 0;
      kernel_.row_->transpose(
          {.rows = static_cast<size_t>(e_.out_channels),
           .cols = static_cast<size_t>(count),
           .x = result,
           .x_col = e_.out_channels,
           .y = static_cast<float*>(c.outputs[0]) + image * e_.out_channels * e_.out_plane() + first,
           .y_row = e_.out_plane()});
    }
  };
  const int64_t work = block_ * e_.taps() * e_.channels * (4 + e_.out_channels / e_.groups / 16);
  const int64_t grain = std::max<int64_t>(1, kCheapGrain / work);
  QUERN_RETURN_IF_ERROR(c.executor->ParallelFor(e_.images * blocks_, grain, task, c.cancel, concurrency_));
  return any ? failed : OkStatus();
}

Result<std::unique_ptr<CpuStep>> DeformConvKernel::Bind(const BindContext& context) const {
  const Shape &x = context.inputs[0].shape, &w = context.inputs[kWeights].shape, &y = context.outputs[0].shape;
  const bool bias = context.has_input(kBias), mask = context.has_input(kMask);
  if (!(w == weights_shape_) || x.rank() != 4 || x[1] != w[1] * groups_ || y.rank() != 4 || y[1] != w[0] ||
      (bias && !(context.inputs[kBias].shape == Shape{w[0]}))) {
    return InvalidArgument("input, weights or bias of another shape than the model promises");
  }
  const Extents e{.images = x[0],
                  .channels = x[1],
                  .in_h = x[2],
                  .in_w = x[3],
                  .out_channels = y[1],
                  .out_h = y[2],
                  .out_w = y[3],
                  .kernel_h = w[2],
                  .kernel_w = w[3],
                  .groups = groups_,
                  .offset_groups = offset_groups_};
  for (const int i : {kOffset, kMask}) {
    if (!context.has_input(i)) continue;
    const Shape& given = context.inputs[static_cast<size_t>(i)].shape;
    const Shape needed{y[0], (i == kOffset ? 2 : 1) * e.offset_groups * e.taps(), y[2], y[3]};
    if (given == needed) continue;
    return InvalidArgument(std::string(i == kOffset ? "the offsets have" : "the mask has") + " shape " +
                           given.ToString() + "; " + needed.ToString() + " is needed");
  }
  if (std::max(x[2], x[3]) > kLargestExtent) return Unsupported(kTooLarge);
  if (y.num_elements() == 0) return NothingToDo();
  return std::unique_ptr<CpuStep>(new DeformConvStep(*this, e, bias, mask, context.concurrency));
}

Result<std::unique_ptr<CpuKernel>> DeformConvKernel::Create(const Node& node, const CompileContext& context) {
  auto kernel = std::make_unique<DeformConvKernel>();
  kernel->config_ = *context.config;
  kernel->row_ = VectorRowFor(*context.config);
  const Dims& dims = *node.input(kWeights)->type().shape;
  for (const Dim& d : dims) kernel->weights_shape_.push_back(d.value());
  const Shape& w = kernel->weights_shape_;
  QUERN_ASSIGN_OR_RETURN(kernel->window_, ReadWindow(node, 2, Dims(dims.begin() + 2, dims.end())));
  kernel->groups_ = node.GetInt("group", 1);
  kernel->offset_groups_ = node.GetInt("offset_group", 1);
  kernel->runs_weights_ = !node.input(kWeights)->is_constant();
  // What a block reads takes half of the cache.
  const int64_t taps = w[2] * w[3], channels = w[1] * kernel->groups_;
  const int64_t fitting = context.config->cpu.facts().l2_bytes / 2 / kF32 / channels / taps;
  kernel->block_ = std::clamp<int64_t>(fitting, 1, kMostPositions);

  ConvProblem p;
  p.in_channels = static_cast<size_t>(channels);
  p.out_channels = static_cast<size_t>(w[0]);
  p.groups = static_cast<size_t>(kernel->groups_);
  p.kernel_w = p.stride_w = static_cast<size_t>(taps);
  p.precision = PrecisionFor(*context.config);
  p.expected_pixels = static_cast<size_t>(kernel->block_);
  kernels::ConvWeights weights;
  weights.w_stride = kF32;
  weights.h_stride = weights.d_stride = weights.i_stride = taps * kF32;
  weights.o_stride = w[1] * weights.i_stride;
  Tensor constant;
  if (!kernel->runs_weights_) {
    QUERN_ASSIGN_OR_RETURN(constant, node.input(kWeights)->constant()->tensor().Transient());
    weights.data = constant.unaligned_data();
  }
  QUERN_ASSIGN_OR_RETURN(kernel->conv_, kernels::Convolution::Create(p, true, SelectOptionsFor(*context.config),
                                                                     weights, context.packing()));
  return std::unique_ptr<CpuKernel>(std::move(kernel));
}

std::string Reject(const Node& node, const CpuConfig&) {
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (std::string why = RejectUnlessType(node.input(i), {DType::kF32}); !why.empty()) return why;
  }
  const ValueType &x = node.input(0)->type(), &w = node.input(kWeights)->type();
  if (!x.shape || x.rank() != 4) return std::to_string(x.rank()) + "-D operands";
  if (!w.has_static_shape() || w.rank() != 4) return "the weights' shape does not fit";
  if (Product(*w.shape).is_constant(0)) return "the weights are empty";
  const int64_t groups = node.GetInt("group", 1), offset_groups = node.GetInt("offset_group", 1);
  if (groups < 1 || (*w.shape)[0].value() % groups != 0) return "'group' does not divide the output channels";
  if (offset_groups < 1 || (*w.shape)[1].value() * groups % offset_groups != 0) {
    return "'offset_group' does not divide the channels";
  }
  const Result<Window> window = ReadWindow(node, 2, Dims(w.shape->begin() + 2, w.shape->end()));
  if (!window.ok()) return window.status().message();
  for (int d = 0; d < 2; ++d) {
    const Dim& extent = (*x.shape)[2 + d];
    const int64_t most = std::max(window->pads_begin[d], window->pads_end[d]);
    const int64_t least = std::min(window->pads_begin[d], window->pads_end[d]);
    if (most > kLargestExtent || least < -kLargestExtent) return kTooLarge;
    if (extent.is_constant() && extent.value() > kLargestExtent) return kTooLarge;
  }
  return {};
}

constexpr CpuOp kOps[] = {{"", "DeformConv", Reject, DeformConvKernel::Create}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsDeformConv = kOps;

}  // namespace quern::cpu
