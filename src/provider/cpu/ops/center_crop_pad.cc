// CenterCropPad: the middle of the input, cut or surrounded with zeros to given extents.
#include <algorithm>
#include <cstring>

#include "provider/cpu/common/copy.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

class CenterCropPadKernel final : public CpuKernel {
 public:
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const TensorSpec &in = context.inputs[0], &out = context.outputs[0];
    const size_t bytes = DTypeBytes(in.dtype);
    const Shape out_strides = out.shape.ContiguousStrides();
    Shape common = in.shape;
    int64_t from = 0, to = 0;  // where the common part begins
    for (int d = 0; d < in.shape.rank(); ++d) {
      common[d] = std::min(in.shape[d], out.shape[d]);
      from += (in.shape[d] - common[d]) / 2 * in.strides[d];
      to += (out.shape[d] - common[d]) / 2 * out_strides[d];
    }
    const bool empty = common.num_elements() == 0;
    const int64_t zeros = common == out.shape ? 0 : out.shape.num_elements() * static_cast<int64_t>(bytes);
    const StridedCopy copy = StridedCopy::Prepare(common, in.strides, out_strides, bytes);
    return MakeStep([=](const StepContext& c) {
      char* y = static_cast<char*>(c.outputs[0]);
      QUERN_RETURN_IF_ERROR(ForRange(c, zeros, kCheapGrain * 8, [&](int64_t begin, int64_t end) {
        std::memset(y + begin, 0, static_cast<size_t>(end - begin));
      }));
      if (empty) return OkStatus();
      const auto width = static_cast<int64_t>(bytes);
      return copy.Run(static_cast<const char*>(c.inputs[0]) + from * width, y + to * width, *c.executor, c.cancel);
    });
  }
  KernelDescription Describe() const override { return Described("strided copy", "the middle, among zeros"); }
  uint64_t strided_inputs() const override { return 1; }
  uint64_t plan_time_inputs() const override { return 2; }
};

std::string Reject(const Node& node, const CpuConfig&) {
  const DType t = node.input(0)->type().dtype;
  return DTypeBytes(t) == 0 ? std::string("type ") + DTypeName(t) : std::string();
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node&, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new CenterCropPadKernel());
}

constexpr CpuOp kOps[] = {{"", "CenterCropPad", Reject, Compile, kAllButData}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsCenterCropPad = kOps;

}  // namespace quern::cpu
