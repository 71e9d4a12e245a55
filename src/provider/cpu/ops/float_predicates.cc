// IsNaN and IsInf of float32 and float64.
#include <limits>

#include "provider/cpu/common/loops.h"

namespace quern::cpu {
namespace {

class PredicateKernel final : public CpuKernel {
 public:
  explicit PredicateKernel(const Node& node)
      : nan_(node.op_type() == "IsNaN"),
        positive_(!nan_ && node.GetInt("detect_positive", 1) != 0),
        negative_(!nan_ && node.GetInt("detect_negative", 1) != 0) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const int64_t n = context.outputs[0].shape.num_elements();
    return context.inputs[0].dtype == DType::kF64 ? BindTyped<double>(n) : BindTyped<float>(n);
  }
  KernelDescription Describe() const override { return Described(nan_ ? "IsNaN" : "IsInf", "plain loop"); }

 private:
  template <typename T>
  Result<std::unique_ptr<CpuStep>> BindTyped(int64_t n) const {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    return MakeStep([n, nan = nan_, positive = positive_, negative = negative_](const StepContext& c) {
      const T* x = static_cast<const T*>(c.inputs[0]);
      bool* y = static_cast<bool*>(c.outputs[0]);
      return ForRange(c, n, kCheapGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          y[i] = (nan & (x[i] != x[i])) | (positive & (x[i] == kInfinity)) | (negative & (x[i] == -kInfinity));
        }
      });
    });
  }
  bool nan_, positive_, negative_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  return RejectUnlessType(node.input(0), {DType::kF32, DType::kF64});
}
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext&) {
  return std::unique_ptr<CpuKernel>(new PredicateKernel(node));
}

constexpr CpuOp kOps[] = {{"", "IsNaN", Reject, Compile}, {"", "IsInf", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsFloatPredicates = kOps;

}  // namespace quern::cpu
