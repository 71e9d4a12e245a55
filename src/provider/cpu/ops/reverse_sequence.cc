// ReverseSequence of any type of fixed size: a copy for each step of each entry.
#include <cstring>

#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

class ReverseSequenceKernel final : public CpuKernel {
 public:
  explicit ReverseSequenceKernel(const Node& node) : time_first_(node.GetInt("time_axis", 0) == 0) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &shape = context.inputs[0].shape, &lengths = context.inputs[1].shape;
    if (shape.rank() < 2 || lengths.rank() != 1 || lengths[0] != shape[time_first_ ? 1 : 0]) {
      return InvalidArgument("lengths of shape " + lengths.ToString() + " do not fit an input of shape " +
                             shape.ToString());
    }
    const int64_t steps = shape[time_first_ ? 0 : 1], entries = lengths[0];
    const int64_t bytes =
        shape.num_elements(2, shape.rank()) * static_cast<int64_t>(DTypeBytes(context.inputs[0].dtype));
    return MakeStep([=, time_first = time_first_](const StepContext& c) -> Status {
      const auto* length = static_cast<const int64_t*>(c.inputs[1]);
      for (int64_t b = 0; b < entries; ++b) {
        if (length[b] >= 0 && length[b] <= steps) continue;
        return InvalidArgument("sequence_lens has the length " + std::to_string(length[b]) + ", the input has " +
                               std::to_string(steps) + " steps");
      }
      const auto at = [&](int64_t b, int64_t t) { return (time_first ? t * entries + b : b * steps + t) * bytes; };
      return ForItems(c, entries * steps, bytes / 4, kCheapGrain, [&](int64_t item) {
        const int64_t b = item / steps, t = item % steps;
        std::memcpy(static_cast<char*>(c.outputs[0]) + at(b, t),
                    static_cast<const char*>(c.inputs[0]) + at(b, t < length[b] ? length[b] - 1 - t : t),
                    static_cast<size_t>(bytes));
      });
    });
  }
  KernelDescription Describe() const override { return Described("reverse_sequence", "a copy for each step"); }

 private:
  bool time_first_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  const DType t = node.input(0)->type().dtype;
  return DTypeBytes(t) == 0 ? std::string("type ") + DTypeName(t) : std::string();
}
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new ReverseSequenceKernel(node));
}

constexpr CpuOp kOps[] = {{"", "ReverseSequence", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsReverseSequence = kOps;

}  // namespace quern::cpu
