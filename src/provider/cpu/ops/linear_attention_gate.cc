// LinearAttentionGate of com.microsoft in float32: rows of one number per head.
#include "provider/cpu/common/loops.h"
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

enum Input { kA, kBias, kScale, kB };

class LinearAttentionGateKernel final : public CpuKernel {
 public:
  explicit LinearAttentionGateKernel(const CpuConfig& config) : row_(VectorRowFor(config)) {}
  Result<std::unique_ptr<CpuStep>> Bind(const BindContext& context) const override {
    const int64_t elements = context.outputs[0].shape.num_elements();
    if (elements == 0) return NothingToDo();
    const int64_t heads = context.inputs[kBias].shape.num_elements();
    const bool has_beta = context.has_output(1);
    return MakeStep([=, row = row_](const StepContext& c) {
      const auto floats = [&](int i) { return static_cast<const float*>(c.inputs[i]); };
      return ForItems(c, elements / heads, heads, kCostlyGrain, [&](int64_t item) {
        const auto n = static_cast<size_t>(heads);
        float* decay = static_cast<float*>(c.outputs[0]) + item * heads;
        row->binary({.kind = BinaryKind::kAdd, .n = n, .x = floats(kA) + item * heads, .z = floats(kBias), .y = decay});
        row->unary({.kind = UnaryKind::kSoftplus, .n = n, .x = decay, .y = decay});
        row->binary({.kind = BinaryKind::kMul, .n = n, .x = decay, .z = floats(kScale), .y = decay});
        if (!has_beta) return;
        float* beta = static_cast<float*>(c.outputs[1]) + item * heads;
        row->unary({.kind = UnaryKind::kSigmoid, .n = n, .x = floats(kB) + item * heads, .y = beta});
      });
    });
  }
  KernelDescription Describe() const override { return Described(*row_, "softplus and sigmoid of each row of heads"); }

 private:
  const ukernel::VectorKernel* row_;
};

std::string Reject(const Node& node, const CpuConfig&) {
  for (const GraphValue* v : node.inputs()) {
    if (std::string why = RejectUnlessType(v, {DType::kF32}); !why.empty()) return why;
  }
  return {};
}
Result<std::unique_ptr<CpuKernel>> Compile(const Node&, const CompileContext& context) {
  return std::unique_ptr<CpuKernel>(new LinearAttentionGateKernel(*context.config));
}

constexpr CpuOp kOps[] = {{"com.microsoft", "LinearAttentionGate", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsLinearAttentionGate = kOps;

}  // namespace quern::cpu
