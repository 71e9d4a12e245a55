// Operators whose output is the input's memory under another shape: Reshape, Flatten, Squeeze, Unsqueeze, Identity,
// Dropout. Where the plan must have separate memory (graph borders), they copy.
#include <optional>
#include <vector>

#include "provider/cpu/common/copy.h"
#include "provider/cpu/common/loops.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {
namespace {

// The strides of elements that lie as `strides` says under another shape of as many, at least one; nothing where that
// cannot be. Neighbouring dimensions become one only if the inner one's extent is `constant`, so that what holds for
// the planned extents of a growing state holds for smaller ones.
std::optional<Shape> ShownStrides(const Shape& shape, const Shape& strides, const std::vector<bool>& constant,
                                  const Shape& as) {
  Shape shown = Shape::Filled(as.rank(), 1);
  int next = as.rank() - 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (shape[d] == 1) continue;
    // [first, d]: dimensions that walk as one; those of extent 1 may lie between them.
    const int64_t inner = strides[d];
    int64_t count = shape[d];
    int last = d;
    for (int outer = d - 1; outer >= 0; --outer) {
      if (shape[outer] == 1) continue;
      if (!constant[static_cast<size_t>(last)] || strides[outer] != strides[last] * shape[last]) break;
      count *= shape[outer];
      last = d = outer;
    }
    // The dimensions that they are shown as.
    int64_t covered = 1;
    for (; next >= 0 && covered < count; --next) {
      shown[next] = inner * covered;
      covered *= as[next];
    }
    if (covered != count) return std::nullopt;
  }
  for (; next >= 0; --next) shown[next] = next + 1 < as.rank() ? shown[next + 1] * as[next + 1] : 1;
  return shown;
}

class ReshapeKernel final : public CpuKernel {
 public:
  explicit ReshapeKernel(const Node& node) {
    const ValueType& type = node.input(0)->type();
    if (!type.has_rank()) return;
    for (const Dim& dim : *type.shape) constant_.push_back(dim.is_constant());
  }
  Placement Place(const BindContext& context) const override {
    const TensorSpec &in = context.inputs[0], &out = context.outputs[0];
    std::optional<Shape> strides;
    if (in.contiguous) {
      strides = out.shape.ContiguousStrides();
    } else if (in.shape.num_elements() > 0 && static_cast<size_t>(in.shape.rank()) == constant_.size()) {
      strides = ShownStrides(in.shape, in.strides, constant_, out.shape);
    }
    if (!strides) return {};
    Placement p;
    p.views = {{.output = 0, .input = 0, .offset = 0, .strides = *strides}};
    return p;
  }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const TensorSpec& in = context.inputs[0];
    if (in.contiguous) return MakeDenseCopy(context.outputs[0]);
    const StridedCopy copy =
        StridedCopy::Prepare(in.shape, in.strides, in.shape.ContiguousStrides(), DTypeBytes(in.dtype));
    return MakeStep(
        [copy](const StepContext& c) { return copy.Run(c.inputs[0], c.outputs[0], *c.executor, c.cancel); });
  }
  KernelDescription Describe() const override {
    return {.kernel = "view",
            .why = "the same memory under another shape",
            .rejected = {},
            .layout = {},
            .packed_bytes = 0};
  }
  uint64_t strided_inputs() const override { return 1; }
  bool only_shows() const override { return true; }
  uint64_t plan_time_inputs() const override { return ~uint64_t{1}; }

 private:
  std::vector<bool> constant_;  // which dimensions of the input have an extent that the graph tells
};

std::string Reject(const Node& node, const CpuConfig&) {
  if (DTypeBytes(node.input(0)->type().dtype) == 0) {
    return std::string("type ") + DTypeName(node.input(0)->type().dtype);
  }
  if (node.num_outputs() > 1 && node.output(1)) return "the mask output";
  return {};
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new ReshapeKernel(node));
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
