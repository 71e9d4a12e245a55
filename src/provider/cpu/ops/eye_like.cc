// EyeLike: ones on a diagonal, zeros elsewhere. Of the input only the shape counts.
#include <cstring>

#include "ops/common/dispatch.h"
#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

// The bytes of 1, as far as the type has one.
Status WriteOne(DType dtype, char* element) {
  using List = Types<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                     uint64_t, bool>;
  return DispatchType(List{}, dtype, [&]<typename T>() {
    const T one = static_cast<T>(ComputeType<T>{1});
    std::memcpy(element, &one, sizeof one);
    return OkStatus();
  });
}

class EyeLikeKernel final : public CpuKernel {
 public:
  explicit EyeLikeKernel(const Node& node) : diagonal_(node.GetInt("k", 0)) {}
  uint64_t plan_time_inputs() const override { return 1; }

  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const TensorSpec& out = context.outputs[0];
    if (out.shape.num_elements() == 0) return NothingToDo();
    std::array<char, sizeof(double)> one{};
    QUERN_RETURN_IF_ERROR(WriteOne(out.dtype, one.data()));
    const size_t bytes = DTypeBytes(out.dtype);
    return MakeStep([=, k = diagonal_, rows = out.shape[0], columns = out.shape[1]](const StepContext& c) {
      const size_t line = static_cast<size_t>(columns) * bytes;
      return ForItems(c, rows, columns, kCheapGrain, [&](int64_t row) {
        char* y = static_cast<char*>(c.outputs[0]) + static_cast<size_t>(row) * line;
        std::memset(y, 0, line);
        if (k >= -row && k < columns - row) std::memcpy(y + static_cast<size_t>(row + k) * bytes, one.data(), bytes);
      });
    });
  }
  KernelDescription Describe() const override { return Described("EyeLike", "zeros and a one by rows"); }

 private:
  int64_t diagonal_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  const DType t = node.output(0)->type().dtype;
  std::array<char, sizeof(double)> one{};
  return WriteOne(t, one.data()).ok() ? std::string() : std::string("type ") + DTypeName(t);
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new EyeLikeKernel(node));
}

constexpr CpuOp kOps[] = {{"", "EyeLike", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsEyeLike = kOps;

}  // namespace quern::cpu
