// TensorScatter: a cache with an update written along `axis`, for each batch entry from its own index on.
#include <cstring>

#include "provider/cpu/common/copy.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

class TensorScatterKernel final : public CpuKernel {
 public:
  explicit TensorScatterKernel(const Node& node)
      : axis_(node.GetInt("axis", -2)), circular_(node.GetString("mode", "linear") == "circular") {}
  Placement Place(const BindContext&) const override { return {.views = {}, .parts = {}, .in_place_inputs = {0}}; }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const Shape &cache = context.inputs[0].shape, &update = context.inputs[1].shape;
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + cache.rank() : axis_);
    const size_t bytes = DTypeBytes(context.inputs[0].dtype);
    const size_t total = static_cast<size_t>(cache.num_elements()) * bytes;
    const size_t entry = static_cast<size_t>(cache.num_elements(axis + 1, cache.rank())) * bytes;
    const bool has_starts = context.has_input(2);
    return MakeStep([=, circular = circular_, batch = cache[0], between = cache.num_elements(1, axis),
                     room = cache[axis], length = update[axis]](const StepContext& c) {
      const auto* starts = has_starts ? static_cast<const int64_t*>(c.inputs[2]) : nullptr;
      for (int64_t b = 0; starts && b < batch; ++b) {
        if (starts[b] < 0 || (!circular && starts[b] > room - length)) {
          return InvalidArgument("write index " + std::to_string(starts[b]) + " with " + std::to_string(length) +
                                 " entries to write leaves a cache of " + std::to_string(room));
        }
      }
      QUERN_RETURN_IF_ERROR(CopyUnlessInPlace(c, total));
      if (entry == 0) return OkStatus();
      const auto width = static_cast<int64_t>(entry);
      return ForItems(c, batch * between * length, width, kCheapGrain * 8, [&](int64_t item) {
        const int64_t row = item / length, start = starts ? starts[row / between] : 0;
        const int64_t at = circular ? (start % room + item % length) % room : start + item % length;
        std::memcpy(static_cast<char*>(c.outputs[0]) + (row * room + at) * width,
                    static_cast<const char*>(c.inputs[1]) + item * width, entry);
      });
    });
  }
  KernelDescription Describe() const override { return Described("TensorScatter", "copies by entries"); }

 private:
  int64_t axis_;
  bool circular_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  const DType t = node.input(0)->type().dtype;
  return DTypeBytes(t) == 0 ? std::string("type ") + DTypeName(t) : std::string();
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new TensorScatterKernel(node));
}

constexpr CpuOp kOps[] = {{"", "TensorScatter", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsTensorScatter = kOps;

}  // namespace quern::cpu
