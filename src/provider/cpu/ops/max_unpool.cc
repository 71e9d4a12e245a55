// MaxUnpool: the elements that MaxPool chose, put back where they stood, zeros elsewhere. Elements go in order, so that
// of several for one place the last one counts.
#include <cstring>

#include "ops/common/unpool.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

class MaxUnpoolKernel final : public CpuKernel {
 public:
  explicit MaxUnpoolKernel(const Node& node) : node_(node) {}
  uint64_t plan_time_inputs() const override { return 4; }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &x = context.inputs[0].shape, &y = context.outputs[0].shape;
    const bool given = context.has_input(2);
    QUERN_ASSIGN_OR_RETURN(const UnpoolShapes shapes, UnpoolShapes::Make(node_, x, y, given));
    const auto bytes = static_cast<int64_t>(DTypeBytes(context.inputs[0].dtype));
    return MakeStep(
        [=, count = x.num_elements(), total = y.num_elements(), strides = y.ContiguousStrides()](const StepContext& c) {
          const auto* indices = static_cast<const int64_t*>(c.inputs[1]);
          const char* from = static_cast<const char*>(c.inputs[0]);
          char* to = static_cast<char*>(c.outputs[0]);
          QUERN_RETURN_IF_ERROR(ForRange(c, total * bytes, kCheapGrain * 8, [&](int64_t begin, int64_t end) {
            std::memset(to + begin, 0, static_cast<size_t>(end - begin));
          }));
          const Shape& counted = shapes.CountedIn(indices);
          const bool whole = counted == y;  // an index is the place itself
          for (int64_t i = 0; i < count; ++i) {
            const std::optional<Shape> position = PositionOf(indices[i], counted);
            if (!position) {
              return InvalidArgument("index " + std::to_string(indices[i]) + " is outside a tensor of shape " +
                                     counted.ToString());
            }
            int64_t at = whole ? indices[i] : 0;
            for (int d = 0; d < y.rank() && !whole; ++d) at += (*position)[d] * strides[d];
            std::memcpy(to + at * bytes, from + i * bytes, static_cast<size_t>(bytes));
          }
          return OkStatus();
        });
  }
  KernelDescription Describe() const override { return Described("MaxUnpool", "one element for each index"); }

 private:
  const Node& node_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  const DType t = node.input(0)->type().dtype;
  return DTypeBytes(t) == 0 ? std::string("type ") + DTypeName(t) : std::string();
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new MaxUnpoolKernel(node));
}

constexpr CpuOp kOps[] = {{"", "MaxUnpool", Reject, Compile, 0b100}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsMaxUnpool = kOps;

}  // namespace quern::cpu
