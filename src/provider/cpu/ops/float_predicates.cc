// IsNaN and IsInf of float32 and float64.
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

std::string Reject(const Node& node, const CpuConfig&) {
  return RejectUnlessType(node.input(0), {DType::kF32, DType::kF64});
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  const DType dtype = node.input(0)->type().dtype;
  const ukernel::ElementwiseKernel* kernel = ElementwiseRowFor(*context.config);
  const UnaryKind kind = node.Is("IsNaN") ? UnaryKind::kIsNan : UnaryKind::kIsInf;
  const auto flag = [&](const char* name) { return node.GetInt(name, 1) != 0 ? 1.0 : 0.0; };
  return MakePlainUnary({.name = node.op_type(),
                         .from = dtype,
                         .kernel = kernel,
                         .rows = {kernel->unary(kind, dtype, DType::kBool)},
                         .parameters = {.a = flag("detect_positive"), .b = flag("detect_negative")}});
}

constexpr CpuOp kOps[] = {{"", "IsNaN", Reject, Compile}, {"", "IsInf", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsFloatPredicates = kOps;

}  // namespace quern::cpu
