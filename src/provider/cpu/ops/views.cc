// Operators whose output is the input's memory under another shape: Reshape, Flatten, Squeeze, Unsqueeze, Identity,
// Dropout. Where the plan must have separate memory (graph borders), they copy.
#include <cstring>

#include "provider/cpu/common/copy.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {
namespace {

class ReshapeKernel final : public CpuKernel {
 public:
  Placement Place(const BindContext& context) const override {
    if (!context.inputs[0].contiguous) return {};
    Placement p;
    p.views = {{.output = 0, .input = 0, .offset = 0, .strides = context.outputs[0].shape.ContiguousStrides()}};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    return MakeDenseCopy(context.outputs[0]);
  }
  KernelDescription Describe() const override {
    return {.kernel = "view",
            .why = "the same memory under another shape",
            .rejected = {},
            .layout = {},
            .packed_bytes = 0};
  }
  uint64_t plan_time_inputs() const override { return ~uint64_t{1}; }
};

std::string Reject(const Node& node, const CpuConfig&) {
  if (DTypeBytes(node.input(0)->type().dtype) == 0) {
    return std::string("type ") + DTypeName(node.input(0)->type().dtype);
  }
  if (node.num_outputs() > 1 && node.output(1)) return "the mask output";
  return {};
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node&, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new ReshapeKernel());
}

std::string RejectDropout(const Node& node, const CpuConfig& config) {
  if (node.input(2) || (node.opset() < 7 && node.GetInt("is_test", 0) == 0)) return "training mode";
  return Reject(node, config);
}

constexpr CpuOp kOps[] = {
    {"", "Reshape", Reject, Compile, kAllButData},
    {"", "Flatten", Reject, Compile},
    {"", "Squeeze", Reject, Compile, kAllButData},
    {"", "Unsqueeze", Reject, Compile, kAllButData},
    {"", "Identity", Reject, Compile},
    {"", "Dropout", RejectDropout, Compile},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsViews = kOps;

}  // namespace quern::cpu
