// Convolution, channels last: this provider's Conv(x [N, spatial..., C], w [O, C/g, kernel...], bias, residual), of
// float32 or of integers (common/quantization.h), over one to three spatial dimensions.
#include "kernels/conv.h"

#include "kernels/dwconv.h"
#include "kernels/winograd.h"
#include "ops/common/window.h"
#include "provider/cpu/common/constant_expression.h"
#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/common/quantization.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {
namespace {

using kernels::ConvArgs;

constexpr int64_t kMostTaps = UINT16_MAX;  // of depthwise kernels, which count them in 16 bits

// Why the window cannot be computed here. This provider's Conv has the channels last.
std::string RejectConv(const Node& node, const CpuConfig& config) {
  const bool last = node.domain() == kCpuDomain;
  const ValueType &x = node.input(0)->type(), &w = node.input(1)->type();
  if (x.dtype != DType::kF32) return std::string("type ") + DTypeName(x.dtype);
  if (!x.shape || x.rank() < 3 || x.rank() > 5) return std::to_string(x.rank()) + "-D operands";
  if (!w.has_static_shape() || w.rank() != x.rank()) return "the weights' shape does not fit";
  if (Product(*w.shape).is_constant(0)) return "the weights are empty";
  if (!IsConstantOrFolded(node.input(1), config) && w.dtype != DType::kF32) {
    return std::string("weights of a run of type ") + DTypeName(w.dtype);
  }
  if (const GraphValue* bias = node.input(kBiasInput); bias && !IsConstantOrFolded(bias, config)) {
    const ValueType& b = bias->type();
    if (b.dtype != DType::kF32) return std::string("a bias of a run of type ") + DTypeName(b.dtype);
    if (!b.has_static_shape() || *b.shape != Dims{w.shape->front()}) return "the bias' shape does not fit";
  }
  const Result<Window> window = ReadWindow(node, x.rank() - 2, Dims(w.shape->begin() + 2, w.shape->end()));
  if (!window.ok()) return window.status().message();
  for (int d = 0; d < window->rank(); ++d) {
    if (window->pads_begin[d] < 0 || window->pads_end[d] < 0) return "negative padding";
  }
  if (node.GetInt("group", 1) > 1 && (*w.shape)[1].is_constant(1) && Product(window->kernel).value() > kMostTaps) {
    return "a depthwise kernel of more than " + std::to_string(kMostTaps) + " taps";
  }
  const bool same = window->auto_pad == Window::AutoPad::kSameUpper || window->auto_pad == Window::AutoPad::kSameLower;
  for (int d = 0; same && d < window->rank(); ++d) {
    const Dim& extent = (*x.shape)[d + (last ? 1 : 2)];
    if (window->strides[d] != 1 && !extent.is_constant()) return "auto_pad with a stride needs known extents";
  }
  return {};
}

// Padding of dimension d as numbers (SAME as ONNX defines it).
std::pair<int64_t, int64_t> Padding(const Window& w, int d, const Dim& extent) {
  switch (w.auto_pad) {
    case Window::AutoPad::kNotSet:
      return {w.pads_begin[d], w.pads_end[d]};
    case Window::AutoPad::kValid:
      return {0, 0};
    default:
      break;
  }
  const int64_t span = w.Span(d).value();
  int64_t total = span - 1;  // stride 1, for which the extent does not matter
  if (w.strides[d] != 1) {
    const int64_t in = extent.value(), out = (in + w.strides[d] - 1) / w.strides[d];
    total = std::max<int64_t>(0, (out - 1) * w.strides[d] + span - in);
  }
  const int64_t small = total / 2;
  return w.auto_pad == Window::AutoPad::kSameUpper ? std::pair(small, total - small) : std::pair(total - small, small);
}

struct Geometry {
  int64_t images, in_d, in_h, in_w, channels, out_d, out_h, out_w, out_channels;
};
Geometry GeometryOf(const Shape& x, const Shape& y) {
  const int r = x.rank();
  const auto depth = [r](const Shape& s) { return r < 5 ? 1 : s[1]; };
  const auto height = [r](const Shape& s) { return r < 4 ? 1 : s[r - 3]; };
  return {x[0], depth(x), height(x), x[r - 2], x.back(), depth(y), height(y), y[r - 2], y.back()};
}

class ConvKernel final : public CpuKernel {
 public:
  static Result<std::unique_ptr<CpuKernel>> Create(const Node& node, const CompileContext& context);
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override;
  KernelDescription Describe() const override { return DescribeFor(0); }
  uint64_t strided_inputs() const override { return 1; }
  uint64_t strided_outputs() const override { return 1; }
  uint64_t packed_inputs() const override { return packs_in_run_ ? 0 : 2; }
  bool TakesInputStrides(size_t i, const Shape& shape, const Shape& strides) const override {
    return CpuKernel::TakesInputStrides(i, shape, strides) && HasEvenRows(shape, strides, 1);
  }
  bool TakesOutputStrides(size_t i, const Shape& shape, const Shape& strides) const override {
    return CpuKernel::TakesOutputStrides(i, shape, strides) && HasEvenRows(shape, strides, 1);
  }

  KernelDescription DescribeFor(size_t pixels) const {
    KernelDescription d;
    if (algorithm_ == Algorithm::kDepthwise) {
      d.kernel = ukernel::Name(*dw_.row()).text;
      d.why = "depthwise: each channel by itself, no product";
      d.packed_bytes = dw_.packed_bytes();
    } else if (algorithm_ == Algorithm::kWinograd) {
      const size_t m = (pixels ? pixels : 64) / 4 + 1;
      d = DescribeRow(winograd_.gemm_problem(), config_, winograd_.weights().choice(), winograd_.GemmRowFor(4 * m), m);
      d.kernel = std::string(ukernel::Name(winograd_.row()).text) + " + " + d.kernel;
      d.why = "16 products instead of 36 for 2 x 2 outputs; each: " + d.why;
      d.packed_bytes = winograd_.weights().packed_bytes();
    } else {
      d = DescribeRow(conv_.gemm_problem(), config_, conv_.weights().choice(), conv_.RowFor(pixels ? pixels : 64),
                      pixels ? pixels : 64);
      d.packed_bytes = packs_in_run_ ? 0 : conv_.weights().packed_bytes();
      if (conv_.folded()) d.why += ", kernel rows folded into K";
      if (!why_direct_.empty()) d.rejected.emplace_back("winograd_f32", why_direct_);
    }
    if (packs_in_run_) d.why += ", weights packed by each run";
    d.why += epilogue_text_;
    return d;
  }

 private:
  friend class ConvStep;
  CpuConfig config_;
  enum class Algorithm : uint8_t { kDirect, kDepthwise, kWinograd };
  Algorithm algorithm_ = Algorithm::kDirect;
  std::string why_direct_;  // and not Winograd's
  bool packs_in_run_ = false;
  Shape weights_shape_;
  kernels::Conv conv_;
  kernels::DwConv dw_;
  kernels::WinogradConv winograd_;
  EpilogueList epilogue_;
  ProductZeroPoints zeros_;
  std::string epilogue_text_;
};

class ConvStep final : public CpuStep {
 public:
  ConvStep(const ConvKernel& kernel, const BindContext& context) : kernel_(kernel) {
    const Geometry g = GeometryOf(context.inputs[0].shape, context.outputs[0].shape);
    const auto bytes = [](const TensorSpec& s) { return static_cast<ptrdiff_t>(DTypeBytes(s.dtype)); };
    args_.images = static_cast<size_t>(g.images);
    args_.in_d = static_cast<size_t>(g.in_d);
    args_.in_h = static_cast<size_t>(g.in_h);
    args_.in_w = static_cast<size_t>(g.in_w);
    const auto pixel_bytes = [&](const TensorSpec& s) {
      return static_cast<ptrdiff_t>(*EvenStride(s.shape, s.strides, 1, s.shape.rank() - 2)) * bytes(s);
    };
    const auto image_bytes = [&](const TensorSpec& s) { return static_cast<ptrdiff_t>(s.strides[0]) * bytes(s); };
    args_.in_pixel_stride = pixel_bytes(context.inputs[0]);
    args_.in_row_stride = g.in_w * args_.in_pixel_stride;
    args_.in_image_stride = image_bytes(context.inputs[0]);
    args_.dst_pixel_stride = pixel_bytes(context.outputs[0]);
    const int64_t pixels = g.out_d * g.out_h * g.out_w;
    args_.dst_image_stride = image_bytes(context.outputs[0]);
    args_.input_zero_point = kernel.zeros_.x;
    if (context.inputs.size() > kInputZeroInput) zero_type_ = context.inputs[kInputZeroInput].dtype;
    args_.weight_zero_point = kernel.zeros_.w;
    args_.weight_zero_points = kernel.zeros_.w_vector();
    ops_ = kernel.epilogue_.ops;
    if (kernel.epilogue_.residual_op >= 0) {
      const ptrdiff_t pixel = g.out_channels * bytes(context.inputs[kResidualInput]);
      ops_[kernel.epilogue_.residual_op].row_stride = static_cast<size_t>(pixel);
      args_.op_image_strides[kernel.epilogue_.residual_op] = pixels * pixel;
    }
    args_.ops = ops_.data();
    args_.op_count = ops_.size();
    pixels_ = static_cast<size_t>(pixels);
    empty_ = context.outputs[0].shape.num_elements() == 0;
    if (empty_) return;
    switch (kernel.algorithm_) {
      case ConvKernel::Algorithm::kDepthwise:
        scratch_ = kernel.dw_.WorkspaceBytes(args_, context.concurrency);
        break;
      case ConvKernel::Algorithm::kWinograd:
        winograd_plan_ = kernel.winograd_.Plan(args_, context.concurrency);
        scratch_ = winograd_plan_.workspace_bytes;
        break;
      case ConvKernel::Algorithm::kDirect:
        plan_ = kernel.conv_.Plan(args_, context.concurrency);
        scratch_ = plan_.workspace_bytes;
    }
  }

  size_t scratch_bytes() const override { return scratch_; }
  KernelDescription Describe() const override { return kernel_.DescribeFor(pixels_); }

  Status Run(const StepContext& context) const override {
    if (empty_) return OkStatus();
    ConvArgs args = args_;
    ukernel::EpilogueOp ops[ukernel::kMaxEpilogueOps];
    std::copy(ops_.begin(), ops_.end(), ops);
    if (kernel_.epilogue_.residual_op >= 0) ops[kernel_.epilogue_.residual_op].data = context.inputs[kResidualInput];
    if (kernel_.epilogue_.bias_op >= 0) ops[kernel_.epilogue_.bias_op].data = context.inputs[kBiasInput];
    args.ops = ops;
    if (kernel_.packs_in_run_) args.weights = context.inputs[1];
    args.input = context.inputs[0];
    args.dst = context.outputs[0];
    if (zero_type_ == DType::kI8) args.input_zero_point = *static_cast<const int8_t*>(context.inputs[kInputZeroInput]);
    if (zero_type_ == DType::kU8) args.input_zero_point = *static_cast<const uint8_t*>(context.inputs[kInputZeroInput]);
    const kernels::RunResources resources{.executor = context.executor,
                                          .cancel = context.cancel,
                                          .workspace = context.scratch,
                                          .workspace_bytes = scratch_};
    switch (kernel_.algorithm_) {
      case ConvKernel::Algorithm::kDepthwise:
        return kernel_.dw_.Run(args, resources);
      case ConvKernel::Algorithm::kWinograd:
        return kernel_.winograd_.Run(winograd_plan_, args, resources);
      case ConvKernel::Algorithm::kDirect:
        break;
    }
    return kernel_.conv_.Run(plan_, args, resources);
  }

 private:
  const ConvKernel& kernel_;
  ConvArgs args_;
  kernels::ConvPlan plan_;  // of the algorithm that it is
  kernels::WinogradPlan winograd_plan_;
  std::vector<ukernel::EpilogueOp> ops_;
  size_t scratch_ = 0, pixels_ = 0;
  DType zero_type_ = DType::kUndefined;  // of the input's zero point, where it comes with the run
  bool empty_ = false;
};

Result<std::unique_ptr<CpuStep>> ConvKernel::Bind(const BindContext& context) const {
  if (!(context.inputs[1].shape == weights_shape_) ||
      (epilogue_.bias_op >= 0 && !(context.inputs[kBiasInput].shape == Shape{weights_shape_[0]}))) {
    return InvalidArgument("weights or bias of another shape than the model promises");
  }
  if (epilogue_.residual_op >= 0) QUERN_RETURN_IF_ERROR(CheckResultShaped(context, kResidualInput));
  const TensorSpec &x = context.inputs[0], &y = context.outputs[0];
  if (!HasEvenRows(x.shape, x.strides, 1) || !HasEvenRows(y.shape, y.strides, 1)) {
    return Internal("pixels that are not evenly apart");
  }
  return std::unique_ptr<CpuStep>(new ConvStep(*this, context));
}

Result<std::unique_ptr<CpuKernel>> ConvKernel::Create(const Node& node, const CompileContext& context) {
  auto kernel = std::make_unique<ConvKernel>();
  kernel->config_ = *context.config;
  QUERN_ASSIGN_OR_RETURN(kernel->epilogue_, MakeEpilogue(node));
  QUERN_ASSIGN_OR_RETURN(kernel->zeros_, ZeroPointsOf(node));
  kernel->epilogue_text_ = EpilogueText(node);
  const ValueType& x = node.input(0)->type();
  Tensor weights;  // undefined where they come with the run
  kernel->packs_in_run_ = !node.input(1)->is_constant();
  if (!kernel->packs_in_run_) {
    QUERN_ASSIGN_OR_RETURN(weights, node.input(1)->constant()->tensor().Contiguous());
  }
  const DType weights_type = node.input(1)->type().dtype;
  for (const Dim& d : *node.input(1)->type().shape) kernel->weights_shape_.push_back(d.value());
  const Shape& w = kernel->weights_shape_;
  Dims kernel_dims(w.begin() + 2, w.end());
  QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(node, x.rank() - 2, kernel_dims));
  // The window's width, height and depth; -1: there is none.
  const int dw = window.rank() - 1, dh = window.rank() - 2, dd = window.rank() - 3;
  const auto pads = [&](int d) {
    return d < 0 ? std::pair<int64_t, int64_t>(0, 0) : Padding(window, d, (*x.shape)[1 + d]);
  };
  const auto extent = [](const auto& list, int d) { return d < 0 ? size_t{1} : static_cast<size_t>(list[d]); };
  const auto [left, right] = pads(dw);
  const auto [top, bottom] = pads(dh);
  const auto [front, back] = pads(dd);

  kernels::ConvProblem p;
  p.lhs = ukernel::FormatOf(x.dtype);
  p.rhs = ukernel::FormatOf(weights_type);
  p.in_channels = static_cast<size_t>(w[1] * node.GetInt("group", 1));
  p.out_channels = static_cast<size_t>(w[0]);
  p.groups = static_cast<size_t>(node.GetInt("group", 1));
  const Shape taps(w.span().subspan(2));
  p.kernel_d = extent(taps, dd);
  p.kernel_h = extent(taps, dh);
  p.kernel_w = extent(taps, dw);
  p.stride_d = extent(window.strides, dd);
  p.stride_h = extent(window.strides, dh);
  p.stride_w = extent(window.strides, dw);
  p.dilation_d = extent(window.dilations, dd);
  p.dilation_h = extent(window.dilations, dh);
  p.dilation_w = extent(window.dilations, dw);
  p.pad_front = static_cast<size_t>(front);
  p.pad_back = static_cast<size_t>(back);
  p.pad_top = static_cast<size_t>(top);
  p.pad_bottom = static_cast<size_t>(bottom);
  p.pad_left = static_cast<size_t>(left);
  p.pad_right = static_cast<size_t>(right);
  p.precision = PrecisionFor(*context.config);
  const Dims& y = *node.output(0)->type().shape;
  Dim pixels = 1;
  for (size_t i = 1; i + 1 < y.size(); ++i) pixels = pixels * y[i];
  p.expected_pixels = pixels.is_constant() ? static_cast<size_t>(pixels.value()) : 0;

  const auto element = static_cast<ptrdiff_t>(DTypeBytes(weights_type));
  kernels::ConvWeights source;
  source.data = kernel->packs_in_run_ ? nullptr : weights.unaligned_data();
  source.w_stride = element;
  source.h_stride = static_cast<ptrdiff_t>(p.kernel_w) * element;
  source.d_stride = static_cast<ptrdiff_t>(p.kernel_h) * source.h_stride;
  source.i_stride = static_cast<ptrdiff_t>(p.kernel_d) * source.d_stride;
  source.o_stride = static_cast<ptrdiff_t>(w[1]) * source.i_stride;

  if (x.dtype == DType::kF32 && dd < 0 && p.groups > 1 && p.groups == p.in_channels && w[1] == 1) {
    kernel->algorithm_ = Algorithm::kDepthwise;
    kernels::DwConvProblem d;
    d.channels = p.in_channels;
    d.multiplier = p.out_channels / p.in_channels;
    d.kernel_h = p.kernel_h, d.kernel_w = p.kernel_w;
    d.stride_h = p.stride_h, d.stride_w = p.stride_w;
    d.dilation_h = p.dilation_h, d.dilation_w = p.dilation_w;
    d.pad_top = p.pad_top, d.pad_left = p.pad_left, d.pad_bottom = p.pad_bottom, d.pad_right = p.pad_right;
    kernels::DwSelectOptions options;
    options.cpu = context.config->cpu.facts();
    QUERN_ASSIGN_OR_RETURN(kernel->dw_, kernels::DwConv::Create(d, options, source));
    return std::unique_ptr<CpuKernel>(std::move(kernel));
  }
  const kernels::SelectOptions options = SelectOptionsFor(*context.config);
  kernel->why_direct_ = kernels::WinogradConv::RejectionReason(p, options, source);
  if (kernel->why_direct_.empty()) {
    kernel->algorithm_ = Algorithm::kWinograd;
    QUERN_ASSIGN_OR_RETURN(kernel->winograd_, kernels::WinogradConv::Create(p, options, source, context.packing()));
  } else {
    QUERN_ASSIGN_OR_RETURN(kernel->conv_, kernels::Conv::Create(p, options, source, context.packing()));
  }
  return std::unique_ptr<CpuKernel>(std::move(kernel));
}

// As ONNX Conv, with the channels last.
Status InferChannelsLast(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0), w = c.input_shape(1);
  if (!x || !w) return c.Error("the operands' shapes must be known");
  const Dim channels = (*w)[1] * c.node().GetInt("group", 1);
  if (x->back().is_constant() && channels.is_constant() && !(x->back() == channels)) {
    return c.Error("the input has " + x->back().ToString() + " channels but the weight expects " + channels.ToString());
  }
  const int spatial = static_cast<int>(x->size()) - 2;
  QUERN_ASSIGN_OR_RETURN(const Window window, ReadWindow(c.node(), spatial, Dims(w->begin() + 2, w->end())));
  QUERN_ASSIGN_OR_RETURN(const Dims out, WindowOutput(c.node(), window, Dims(x->begin() + 1, x->end() - 1)));
  Dims y = {x->front()};
  y.insert(y.end(), out.begin(), out.end());
  y.push_back(w->front());
  c.SetOutputType(0, ValueType::Tensor(ProductType(c.node()), std::move(y)));
  return OkStatus();
}

constexpr CpuOp kOps[] = {
    {"", "Conv", RejectConv, nullptr},  // becomes the next one by cpu_convert_windows
    {kCpuDomain, "Conv", RejectConv, ConvKernel::Create, 0, InferChannelsLast},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsConv = kOps;

}  // namespace quern::cpu
