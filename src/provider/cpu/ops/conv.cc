// Convolution, channels last: this provider's Conv(x [N, spatial..., C], w [O, C/g, kernel...], bias, residual), of
// float32 or of integers (common/quantization.h), over one to three spatial dimensions.
#include "kernels/convolution.h"

#include "ops/common/window.h"
#include "provider/cpu/common/constant_expression.h"
#include "provider/cpu/common/conv_problem.h"
#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/quantization.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {
namespace {

using kernels::ConvAlgorithm;
using kernels::ConvArgs;

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
  const bool same = window->auto_pad == Window::AutoPad::kSameUpper || window->auto_pad == Window::AutoPad::kSameLower;
  for (int d = 0; same && d < window->rank(); ++d) {
    const Dim& extent = (*x.shape)[d + (last ? 1 : 2)];
    if (window->strides[d] != 1 && !extent.is_constant()) return "auto_pad with a stride needs known extents";
  }
  return {};
}

class ConvKernel final : public CpuKernel {
 public:
  static Result<std::unique_ptr<CpuKernel>> Create(const Node& node, const CompileContext& context);
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override;
  KernelDescription Describe() const override { return DescribeFor(0); }
  bool sums_products() const override { return true; }
  uint64_t strided_inputs() const override { return 1; }
  uint64_t strided_outputs() const override { return 1; }
  uint64_t packed_inputs() const override { return packs_in_run_ ? 0 : 2; }
  bool TakesInputStrides(size_t i, const Shape& shape, const Shape& strides) const override {
    return CpuKernel::TakesInputStrides(i, shape, strides) && Reads(shape, strides);
  }
  bool TakesOutputStrides(size_t i, const Shape& shape, const Shape& strides) const override {
    return CpuKernel::TakesOutputStrides(i, shape, strides) && Stores(shape, strides);
  }

  KernelDescription DescribeFor(size_t pixels) const {
    KernelDescription d;
    if (conv_.algorithm() == ConvAlgorithm::kDepthwise || conv_.algorithm() == ConvAlgorithm::kGrouped) {
      d.kernel = ukernel::Name(*conv_.depthwise().row()).text;
      d.why = conv_.algorithm() == ConvAlgorithm::kDepthwise
                  ? "depthwise: each channel by itself, no product"
                  : "groups of few channels: vectors across groups, no products";
    } else if (conv_.algorithm() == ConvAlgorithm::kKn2Row) {
      const kernels::Kn2RowConv& c = conv_.kn2row();
      const size_t count = pixels ? pixels : 64;
      d = DescribeRow(c.gemm_problem(), config_, c.weights().choice(), c.GemmRowFor(count), count);
      d.why = "kn2row, " + c.Saving() + ": " + d.why;
    } else if (conv_.algorithm() == ConvAlgorithm::kWinograd) {
      const kernels::WinogradConv& c = conv_.winograd();
      const size_t count = pixels ? pixels : 64;
      d = DescribeRow(c.gemm_problem(), config_, c.weights().choice(), c.GemmRowFor(count), c.TilesOf(count));
      d.kernel = std::string(ukernel::Name(c.row()).text) + " + " + d.kernel;
      d.why = c.Saving() + "; each: " + d.why;
    } else {
      const kernels::Conv& c = conv_.direct();
      const size_t m = pixels ? pixels : 64;
      d = DescribeRow(c.gemm_problem(), config_, c.weights().choice(), c.RowFor(m), m);
      if (c.folded()) d.why += ", kernel rows folded into K";
      d.rejected.emplace_back("kn2row", conv_.rejections().kn2row);
      d.rejected.emplace_back("winograd_f32", conv_.rejections().winograd);
    }
    d.packed_bytes = packs_in_run_ ? 0 : conv_.packed_bytes();
    if (packs_in_run_) d.why += ", weights packed by each run";
    d.why += epilogue_text_;
    if (channels_first_) d.why += ", stored channels first";
    return d;
  }

 private:
  friend class ConvStep;
  // Whether an input of these strides can be read in place: an image that is put in order first anyway also with the
  // channels first, so that what transposes it need not.
  bool Reads(const Shape& shape, const Shape& strides) const {
    return HasEvenRows(shape, strides, 1) ||
           (conv_.algorithm() == ConvAlgorithm::kDirect && conv_.direct().folded() && strides.back() > 0 &&
            EvenStride(shape, strides, 1, shape.rank() - 2) == 1);
  }
  // Whether a result of these strides can be written in place.
  bool Stores(const Shape& shape, const Shape& strides) const {
    const int rank = shape.rank();
    if (channels_first_) return strides[1] > 0 && EvenStride(shape, strides, 2, rank - 1) == 1;
    return HasEvenRows(shape, strides, 1);
  }
  Shape ResultChannelsLast(const Shape& of) const { return channels_first_ ? SeenChannelsLast(of) : of; }

  CpuConfig config_;
  bool packs_in_run_ = false;
  bool channels_first_ = false;
  Shape weights_shape_;
  kernels::Convolution conv_;
  EpilogueList epilogue_;
  ProductZeroPoints zeros_;
  std::string epilogue_text_;
};

class ConvStep final : public CpuStep {
 public:
  ConvStep(const ConvKernel& kernel, const BindContext& context) : kernel_(kernel) {
    TensorSpec y = context.outputs[0];
    y.shape = kernel.ResultChannelsLast(y.shape);
    y.strides = kernel.ResultChannelsLast(y.strides);
    const ConvGeometry g = ConvGeometryOf(context.inputs[0].shape, y.shape);
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
    if (const TensorSpec& x = context.inputs[0]; !HasEvenRows(x.shape, x.strides, 1)) {
      args_.in_channel_stride = static_cast<ptrdiff_t>(x.strides.back()) * bytes(x);
    }
    args_.in_image_stride = image_bytes(context.inputs[0]);
    args_.dst_pixel_stride = pixel_bytes(y);
    const int64_t pixels = g.out_d * g.out_h * g.out_w;
    args_.dst_image_stride = image_bytes(y);
    if (kernel.channels_first_) args_.dst_channel_stride = static_cast<ptrdiff_t>(y.strides.back()) * bytes(y);
    args_.input_zero_point = kernel.zeros_.x;
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
    if (!empty_) plan_ = kernel.conv_.Plan(args_, context.concurrency);
  }

  size_t scratch_bytes() const override { return plan_.workspace_bytes; }
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
    if (kernel_.zeros_.x_of_run != DType::kUndefined) {
      args.input_zero_point = ByteAt(context.inputs[kInputZeroInput], kernel_.zeros_.x_of_run, 0);
    }
    if (kernel_.zeros_.w_of_run != DType::kUndefined) {
      args.weight_zero_point = ByteAt(context.inputs[kWeightZeroInput], kernel_.zeros_.w_of_run, 0);
    }
    return kernel_.conv_.Run(plan_, args,
                             {.executor = context.executor,
                              .cancel = context.cancel,
                              .workspace = context.scratch,
                              .workspace_bytes = plan_.workspace_bytes});
  }

 private:
  const ConvKernel& kernel_;
  ConvArgs args_;
  kernels::ConvolutionPlan plan_;
  std::vector<ukernel::EpilogueOp> ops_;
  size_t pixels_ = 0;
  bool empty_ = false;
};

Result<std::unique_ptr<CpuStep>> ConvKernel::Bind(const BindContext& context) const {
  if (!(context.inputs[1].shape == weights_shape_) ||
      (epilogue_.bias_op >= 0 && !(context.inputs[kBiasInput].shape == Shape{weights_shape_[0]}))) {
    return InvalidArgument("weights or bias of another shape than the model promises");
  }
  const TensorSpec &x = context.inputs[0], &y = context.outputs[0];
  if (epilogue_.residual_op >= 0) {
    QUERN_RETURN_IF_ERROR(CheckShaped(context, kResidualInput, ResultChannelsLast(y.shape)));
  }
  if (!Reads(x.shape, x.strides) || !Stores(y.shape, y.strides)) {
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
  kernel->channels_first_ = StoresChannelsFirst(node);
  QUERN_ASSIGN_OR_RETURN(ConvSource source, ReadConvWithWeights(node, *context.config));
  source.weights.zero_point = kernel->zeros_.w;
  source.weights.zero_points = kernel->zeros_.w_vector();
  kernel->packs_in_run_ = source.weights.data == nullptr;
  kernel->weights_shape_ = source.weights_shape;
  QUERN_ASSIGN_OR_RETURN(kernel->conv_,
                         kernels::Convolution::Create(source.problem, source.flat, SelectOptionsFor(*context.config),
                                                      source.weights, context.packing()));
  return std::unique_ptr<CpuKernel>(std::move(kernel));
}

// As ONNX Conv, with the channels last (of the result, those of a Conv that stores them first excepted).
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
  y.insert(StoresChannelsFirst(c.node()) ? y.begin() + 1 : y.end(), w->front());
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
