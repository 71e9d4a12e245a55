// This provider's ConvChain (common/conv_chain_form.h): convolutions whose intermediate rows stay in cache.
#include "kernels/conv_chain.h"

#include "provider/cpu/common/conv_chain_form.h"
#include "provider/cpu/common/conv_problem.h"
#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {
namespace {

using kernels::ConvChainArgs;
using kernels::ConvChainEpilogue;

class ConvChainKernel final : public CpuKernel {
 public:
  static Result<std::unique_ptr<CpuKernel>> Create(const Node& node, const CompileContext& context) {
    auto kernel = std::make_unique<ConvChainKernel>();
    kernel->config_ = *context.config;
    QUERN_ASSIGN_OR_RETURN(const ConvStages stages, StagesOf(node, node.input(kChainX)->type()));
    const auto multiply = [&](const Node* conv, kernels::Conv& to, EpilogueList& epilogue) -> Status {
      if (!conv) return OkStatus();
      QUERN_ASSIGN_OR_RETURN(const ConvSource source, ReadConvWithWeights(*conv, *context.config));
      QUERN_ASSIGN_OR_RETURN(epilogue, MakeEpilogue(*conv));
      QUERN_ASSIGN_OR_RETURN(to, kernels::Conv::Create(source.problem, SelectOptionsFor(*context.config),
                                                       source.weights, context.packing()));
      return OkStatus();
    };
    QUERN_RETURN_IF_ERROR(multiply(stages.before, kernel->before_, kernel->before_epilogue_));
    QUERN_RETURN_IF_ERROR(multiply(stages.after, kernel->after_, kernel->after_epilogue_));
    QUERN_ASSIGN_OR_RETURN(const ConvSource source, ReadConvWithWeights(*stages.depthwise, *context.config));
    if (!source.depthwise) return Internal("a chain without a depthwise convolution");
    QUERN_ASSIGN_OR_RETURN(kernel->depthwise_epilogue_, MakeEpilogue(*stages.depthwise));
    kernels::DwSelectOptions options;
    options.cpu = context.config->cpu.facts();
    QUERN_ASSIGN_OR_RETURN(kernel->depthwise_,
                           kernels::DwConv::Create(DepthwiseProblem(source.problem), options, source.weights));
    kernel->has_before_ = stages.before != nullptr;
    kernel->has_after_ = stages.after != nullptr;
    kernel->chain_ = kernels::ConvChain(kernel->has_before_ ? &kernel->before_ : nullptr, &kernel->depthwise_,
                                        kernel->has_after_ ? &kernel->after_ : nullptr, options.cpu);
    for (const Node* stage : {stages.before, stages.depthwise, stages.after}) {
      if (!stage) continue;
      kernel->text_ += kernel->text_.empty() ? "" : ", ";
      kernel->text_ += (stage == stages.depthwise ? "depthwise" : "1x1") + EpilogueText(*stage);
    }
    return std::unique_ptr<CpuKernel>(std::move(kernel));
  }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override;
  uint64_t strided_inputs() const override { return 1; }
  uint64_t strided_outputs() const override { return 1; }
  uint64_t packed_inputs() const override {
    return uint64_t{1} << kChainBeforeWeights | uint64_t{1} << kChainDepthwiseWeights |
           uint64_t{1} << kChainAfterWeights;
  }
  bool TakesInputStrides(size_t i, const Shape& shape, const Shape& strides) const override {
    return CpuKernel::TakesInputStrides(i, shape, strides) && HasEvenRows(shape, strides, 1);
  }
  bool TakesOutputStrides(size_t i, const Shape& shape, const Shape& strides) const override {
    return CpuKernel::TakesOutputStrides(i, shape, strides) && HasEvenRows(shape, strides, 1);
  }
  bool sums_products() const override { return true; }
  KernelDescription Describe() const override { return DescribeFor(64, 64); }

  // Pixels that a product takes at once before and after the depthwise convolution.
  KernelDescription DescribeFor(size_t before_pixels, size_t after_pixels) const {
    KernelDescription d;
    const auto add = [&](const kernels::Conv& conv, size_t pixels) {
      KernelDescription row =
          DescribeRow(conv.gemm_problem(), config_, conv.weights().choice(), conv.RowFor(pixels), pixels);
      d.kernel += (d.kernel.empty() ? "" : " + ") + row.kernel;
      d.packed_bytes += conv.weights().packed_bytes();
      for (auto& rejected : row.rejected) d.rejected.push_back(std::move(rejected));
    };
    if (has_before_) add(before_, before_pixels);
    d.kernel += (d.kernel.empty() ? "" : " + ") + std::string(ukernel::Name(*depthwise_.row()).text);
    d.packed_bytes += depthwise_.packed_bytes();
    if (has_after_) add(after_, after_pixels);
    d.why = "rows in between stay in cache: " + text_;
    return d;
  }

 private:
  friend class ConvChainStep;
  CpuConfig config_;
  bool has_before_ = false, has_after_ = false;
  kernels::Conv before_, after_;
  kernels::DwConv depthwise_;
  kernels::ConvChain chain_;
  EpilogueList before_epilogue_, depthwise_epilogue_, after_epilogue_;
  std::string text_;
};

class ConvChainStep final : public CpuStep {
 public:
  ConvChainStep(const ConvChainKernel& kernel, const BindContext& context) : kernel_(kernel) {
    const TensorSpec &x = context.inputs[kChainX], &y = context.outputs[0];
    const ConvGeometry g = ConvGeometryOf(x.shape, y.shape);
    const auto pixel_bytes = [](const TensorSpec& s) {
      return static_cast<ptrdiff_t>(*EvenStride(s.shape, s.strides, 1, s.shape.rank() - 2)) *
             static_cast<ptrdiff_t>(sizeof(float));
    };
    args_.images = static_cast<size_t>(g.images);
    args_.in_h = static_cast<size_t>(g.in_h);
    args_.in_w = static_cast<size_t>(g.in_w);
    args_.in_pixel_stride = pixel_bytes(x);
    args_.in_image_stride = static_cast<ptrdiff_t>(x.strides[0]) * static_cast<ptrdiff_t>(sizeof(float));
    args_.dst_pixel_stride = pixel_bytes(y);
    args_.dst_image_stride = static_cast<ptrdiff_t>(y.strides[0]) * static_cast<ptrdiff_t>(sizeof(float));
    empty_ = y.shape.num_elements() == 0;
    args_.before = {kernel.before_epilogue_.ops.data(), kernel.before_epilogue_.ops.size()};
    args_.depthwise = {kernel.depthwise_epilogue_.ops.data(), kernel.depthwise_epilogue_.ops.size()};
    args_.after = {kernel.after_epilogue_.ops.data(), kernel.after_epilogue_.ops.size()};
    last_ops_ = LastList().ops;
    ConvChainEpilogue& last = Last(args_);
    last.ops = last_ops_.data();
    if (const int r = LastList().residual_op; r >= 0) {
      const auto pixel = static_cast<ptrdiff_t>(g.out_channels) * static_cast<ptrdiff_t>(sizeof(float));
      last_ops_[static_cast<size_t>(r)].row_stride = static_cast<size_t>(pixel);
      last.image_strides[r] = static_cast<ptrdiff_t>(g.out_h * g.out_w) * pixel;
    }
    if (!empty_) plan_ = kernel.chain_.Plan(args_, context.concurrency);
  }

  size_t scratch_bytes() const override { return plan_.workspace_bytes; }
  KernelDescription Describe() const override {
    return kernel_.DescribeFor(std::max<size_t>(1, plan_.before_pixels), std::max<size_t>(1, plan_.after_pixels));
  }

  Status Run(const StepContext& context) const override {
    if (empty_) return OkStatus();
    ConvChainArgs args = args_;
    ukernel::EpilogueOp ops[ukernel::kMaxEpilogueOps];
    std::copy(last_ops_.begin(), last_ops_.end(), ops);
    if (const int r = LastList().residual_op; r >= 0) ops[r].data = context.inputs[kChainResidual];
    Last(args).ops = ops;
    args.input = context.inputs[kChainX];
    args.dst = context.outputs[0];
    return kernel_.chain_.Run(plan_, args,
                              {.executor = context.executor,
                               .cancel = context.cancel,
                               .workspace = context.scratch,
                               .workspace_bytes = plan_.workspace_bytes});
  }

 private:
  const EpilogueList& LastList() const {
    return kernel_.has_after_ ? kernel_.after_epilogue_ : kernel_.depthwise_epilogue_;
  }
  ConvChainEpilogue& Last(ConvChainArgs& args) const { return kernel_.has_after_ ? args.after : args.depthwise; }

  const ConvChainKernel& kernel_;
  ConvChainArgs args_;
  kernels::ConvChainPlan plan_;
  std::vector<ukernel::EpilogueOp> last_ops_;  // of the last convolution, but for the residual
  bool empty_ = false;
};

Result<std::unique_ptr<CpuStep>> ConvChainKernel::Bind(const BindContext& context) const {
  if (context.has_input(kChainResidual)) QUERN_RETURN_IF_ERROR(CheckResultShaped(context, kChainResidual));
  const TensorSpec &x = context.inputs[kChainX], &y = context.outputs[0];
  if (!HasEvenRows(x.shape, x.strides, 1) || !HasEvenRows(y.shape, y.strides, 1)) {
    return Internal("pixels that are not evenly apart");
  }
  return std::unique_ptr<CpuStep>(new ConvChainStep(*this, context));
}

Status Infer(InferContext& c) {
  QUERN_ASSIGN_OR_RETURN(const ConvStages stages, StagesOf(c.node(), c.input_type(kChainX)));
  c.SetOutputType(0, stages.last().output(0)->type());
  return OkStatus();
}

constexpr CpuOp kOps[] = {{kCpuDomain, "ConvChain", nullptr, ConvChainKernel::Create, 0, Infer}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsConvChain = kOps;

}  // namespace quern::cpu
