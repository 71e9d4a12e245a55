// This provider's ChannelScale(x [N, spatial..., C], -, bias, residual, scale): x * scale + bias of each channel, then
// what an epilogue of a product has, in one pass over memory.
#include "provider/cpu/common/epilogue.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

using ukernel::EpilogueOp;

class ChannelScaleKernel final : public CpuKernel {
 public:
  static Result<std::unique_ptr<CpuKernel>> Create(const Node& node, const CompileContext& context) {
    auto kernel = std::make_unique<ChannelScaleKernel>();
    kernel->row_ = VectorRowFor(*context.config);
    kernel->text_ += ResidualAndActivationText(node);
    QUERN_ASSIGN_OR_RETURN(kernel->list_, MakeEpilogue(node));
    return std::unique_ptr<CpuKernel>(std::move(kernel));
  }
  Placement Place(const BindContext&) const override {
    Placement p;
    p.in_place_inputs = {0};
    return p;
  }
  uint64_t strided_inputs() const override { return 1; }
  uint64_t strided_outputs() const override { return 1; }
  bool TakesInputStrides(size_t i, const Shape& shape, const Shape& strides) const override {
    return CpuKernel::TakesInputStrides(i, shape, strides) && HasEvenRows(shape, strides, 0);
  }
  bool TakesOutputStrides(size_t i, const Shape& shape, const Shape& strides) const override {
    return CpuKernel::TakesOutputStrides(i, shape, strides) && HasEvenRows(shape, strides, 0);
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& shape = context.outputs[0].shape;
    const int64_t channels = shape.back(), rows = shape.num_elements(0, shape.rank() - 1);
    const auto row_stride = [&](const TensorSpec& s) { return EvenStride(shape, s.strides, 0, shape.rank() - 2); };
    const auto from = row_stride(context.inputs[0]), to = row_stride(context.outputs[0]);
    if (!from || !to) return Internal("rows that are not evenly apart");
    if (shape.num_elements() == 0) return NothingToDo();
    if (list_.residual_op >= 0) QUERN_RETURN_IF_ERROR(CheckResultShaped(context, kResidualInput));
    const auto bytes = static_cast<size_t>(channels) * sizeof(float);
    // A block stays in the first-level cache from one operation to the next.
    constexpr size_t kBlockBytes = 16384;
    const int64_t block = std::max<int64_t>(1, static_cast<int64_t>(kBlockBytes / std::max<size_t>(bytes, 1)));
    return MakeStep([=, this](const StepContext& c) {
      EpilogueOp ops[ukernel::kMaxEpilogueOps];
      std::copy(list_.ops.begin(), list_.ops.end(), ops);
      if (list_.residual_op >= 0) {
        ops[list_.residual_op].data = c.inputs[kResidualInput];
        ops[list_.residual_op].row_stride = bytes;
      }
      const int64_t grain = std::max<int64_t>(1, kCheapGrain / std::max<int64_t>(1, channels));
      return ForRange(c, rows, grain, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; r += block) {
          row_->epilogue(ops, list_.ops.size(),
                         {.m = static_cast<size_t>(std::min(block, end - r)),
                          .n = static_cast<size_t>(channels),
                          .m0 = static_cast<size_t>(r),
                          .n0 = 0,
                          .src = static_cast<const float*>(c.inputs[0]) + r * *from,
                          .src_row_stride = static_cast<size_t>(*from) * sizeof(float),
                          .src_format = ukernel::Format::kF32,
                          .dst = static_cast<float*>(c.outputs[0]) + r * *to,
                          .dst_row_stride = static_cast<size_t>(*to) * sizeof(float)});
        }
      });
    });
  }
  KernelDescription Describe() const override { return Described(*row_, "scale of each channel" + text_); }

 private:
  const ukernel::VectorKernel* row_ = nullptr;
  EpilogueList list_;
  std::string text_;
};

Status Infer(InferContext& c) {
  c.SetOutputType(0, c.input_type(0));
  return OkStatus();
}

constexpr CpuOp kOps[] = {{kCpuDomain, "ChannelScale", nullptr, ChannelScaleKernel::Create, 0, Infer}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsChannelScale = kOps;

}  // namespace quern::cpu
