// Range: start, start + delta, ...; how many follows from the operands while planning.
#include "ops/common/dispatch.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

using RangeTypes = Types<float, int32_t, int64_t>;

class RangeKernel final : public CpuKernel {
 public:
  uint64_t plan_time_inputs() const override { return 0b111; }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Tensor *start = context.inputs[0].constant, *delta = context.inputs[2].constant;
    if (!start || !delta) return Internal("start and delta are not known while planning");
    std::unique_ptr<CpuStep> step;
    QUERN_RETURN_IF_ERROR(DispatchType(RangeTypes{}, context.outputs[0].dtype, [&]<typename T>() {
      const T first = *start->data<T>(), by = *delta->data<T>();
      const int64_t n = context.outputs[0].shape.num_elements();
      QUERN_ASSIGN_OR_RETURN(step, MakeStep([=](const StepContext& c) {
                               T* y = static_cast<T*>(c.outputs[0]);
                               return ForRange(c, n, kCheapGrain, [&](int64_t begin, int64_t end) {
                                 for (int64_t i = begin; i < end; ++i) y[i] = first + static_cast<T>(i) * by;
                               });
                             }));
      return OkStatus();
    }));
    return step;
  }
  KernelDescription Describe() const override { return Described("range", "plain loop"); }
};

std::string RejectRange(const Node& node, const CpuConfig&) {
  return RejectUnlessType(node.output(0), {DType::kF32, DType::kI32, DType::kI64});
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node&, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new RangeKernel());
}

constexpr CpuOp kOps[] = {{"", "Range", RejectRange, Compile, 0b111}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsRange = kOps;

}  // namespace quern::cpu
