// OneHot of indices that come with the run: a line of `depth` elements for each.
#include <algorithm>

#include "ops/common/dispatch.h"
#include "provider/cpu/common/indices.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

// Elements are moved alone: what is in a bool's byte stays there.
using OneHotTypes = Types<float, int32_t, int64_t, uint8_t>;

class OneHotKernel final : public CpuKernel {
 public:
  explicit OneHotKernel(const Node& node) : axis_(node.GetInt("axis", -1)) {}
  uint64_t plan_time_inputs() const override { return 0b10; }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape& out = context.outputs[0].shape;
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + out.rank() : axis_);
    const int64_t depth = out[axis], outer = out.num_elements(0, axis), inner = out.num_elements(axis + 1, out.rank());
    const bool wide = context.inputs[0].dtype == DType::kI64;
    const DType type = context.outputs[0].dtype == DType::kBool ? DType::kU8 : context.outputs[0].dtype;
    std::unique_ptr<CpuStep> step;
    QUERN_RETURN_IF_ERROR(DispatchType(OneHotTypes{}, type, [&]<typename T>() {
      QUERN_ASSIGN_OR_RETURN(step, MakeStep([=](const StepContext& c) {
                               const T off = static_cast<const T*>(c.inputs[2])[0];
                               const T on = static_cast<const T*>(c.inputs[2])[1];
                               T* y = static_cast<T*>(c.outputs[0]);
                               return ForItems(c, outer, depth * inner, kCheapGrain, [&](int64_t o) {
                                 T* to = y + o * depth * inner;
                                 std::fill_n(to, depth * inner, off);
                                 for (int64_t i = 0; i < inner; ++i) {
                                   const int64_t index = IndexAt(c.inputs[0], wide, o * inner + i);
                                   if (index < -depth || index >= depth) continue;
                                   to[Wrapped(index, depth) * inner + i] = on;
                                 }
                               });
                             }));
      return OkStatus();
    }));
    return step;
  }
  KernelDescription Describe() const override { return Described("one_hot", "a line for each index"); }

 private:
  int64_t axis_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  if (std::string why = RejectUnlessType(node.input(0), {DType::kI64, DType::kI32}); !why.empty()) return why;
  return RejectUnlessType(node.input(2), {DType::kF32, DType::kI32, DType::kI64, DType::kBool});
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new OneHotKernel(node));
}

constexpr CpuOp kOps[] = {{"", "OneHot", Reject, Compile, 0b10}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsOneHot = kOps;

}  // namespace quern::cpu
