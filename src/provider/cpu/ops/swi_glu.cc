// SwiGLU: a * sigmoid(alpha * a) * b of a gate and a value of one shape.
#include <algorithm>

#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

class SwiGluKernel final : public CpuKernel {
 public:
  SwiGluKernel(const Node& node, const CpuConfig& config)
      : row_(VectorRowFor(config)),
        kernel_(ElementwiseRowFor(config)),
        is_double_(node.input(0)->type().dtype == DType::kF64),
        alpha_(node.GetFloat("alpha", 1.0f)) {}
  Placement Place(const BindContext& context) const override { return PlaceBinary(context); }
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const int64_t n = context.outputs[0].shape.num_elements();
    if (is_double_) {
      return MakeStep([n, alpha = double{alpha_}, silu = kernel_->unary(UnaryKind::kSilu, DType::kF64, DType::kF64),
                       multiply = kernel_->binary(BinaryKind::kMul, DType::kF64, DType::kF64)](const StepContext& c) {
        const auto *a = static_cast<const double*>(c.inputs[0]), *b = static_cast<const double*>(c.inputs[1]);
        auto* y = static_cast<double*>(c.outputs[0]);
        return ForRange(c, n, kCostlyGrain, [=](int64_t begin, int64_t end) {
          double gate[kRowChunk], product[kRowChunk];  // y may be b
          for (int64_t i = begin; i < end; i += kRowChunk) {
            const int64_t count = std::min(kRowChunk, end - i);
            silu(count, a + i, gate, {.a = alpha});
            multiply(count, gate, b + i, product);
            std::copy_n(product, count, y + i);
          }
        });
      });
    }
    return MakeStep([n, alpha = alpha_, row = row_](const StepContext& c) {
      const auto *a = static_cast<const float*>(c.inputs[0]), *b = static_cast<const float*>(c.inputs[1]);
      auto* y = static_cast<float*>(c.outputs[0]);
      return ForRange(c, n, kCostlyGrain, [=](int64_t begin, int64_t end) {
        float gate[kRowChunk];  // y may be b
        for (int64_t i = begin; i < end; i += kRowChunk) {
          const auto count = static_cast<size_t>(std::min(kRowChunk, end - i));
          row->unary({.kind = UnaryKind::kSilu, .n = count, .x = a + i, .y = gate, .a = alpha});
          row->binary({.kind = BinaryKind::kMul, .n = count, .x = gate, .z = b + i, .y = y + i});
        }
      });
    });
  }
  KernelDescription Describe() const override {
    return is_double_ ? Described(*kernel_, "SwiGLU (f64), elementwise") : Described(*row_, "SwiGLU, elementwise");
  }

 private:
  const ukernel::VectorKernel* row_;
  const ukernel::ElementwiseKernel* kernel_;
  bool is_double_;
  float alpha_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  return RejectUnlessType(node.input(0), {DType::kF32, DType::kF64});
}
Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new SwiGluKernel(node, *context.config));
}

constexpr CpuOp kOps[] = {{"", "SwiGLU", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsSwiGlu = kOps;

}  // namespace quern::cpu
