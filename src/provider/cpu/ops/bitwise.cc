// Operators on the bits of integers, with broadcasting: BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, BitShift.
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

BinaryKind KindOf(const Node& node) {
  if (node.Is("BitwiseAnd")) return BinaryKind::kBitAnd;
  if (node.Is("BitwiseOr")) return BinaryKind::kBitOr;
  if (node.Is("BitwiseXor")) return BinaryKind::kBitXor;
  return node.GetString("direction", "") == "LEFT" ? BinaryKind::kShiftLeft : BinaryKind::kShiftRight;
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  const DType dtype = node.input(0)->type().dtype;
  const ukernel::ElementwiseKernel* kernel = ElementwiseRowFor(*context.config);
  return MakePlainBinary(
      {.name = node.op_type(), .from = dtype, .kernel = kernel, .row = kernel->binary(KindOf(node), dtype, dtype)});
}

Result<std::unique_ptr<CpuKernel>> CompileNot(const Node& node, const CompileContext& context) {
  const DType dtype = node.input(0)->type().dtype;
  const ukernel::ElementwiseKernel* kernel = ElementwiseRowFor(*context.config);
  return MakePlainUnary({.name = node.op_type(),
                         .from = dtype,
                         .kernel = kernel,
                         .rows = {kernel->unary(UnaryKind::kBitNot, dtype, dtype)}});
}

// Their schemas admit integers alone.
std::string Reject(const Node&, const CpuConfig&) { return {}; }

constexpr CpuOp kOps[] = {
    {"", "BitwiseAnd", Reject, Compile}, {"", "BitwiseOr", Reject, Compile},     {"", "BitwiseXor", Reject, Compile},
    {"", "BitShift", Reject, Compile},   {"", "BitwiseNot", Reject, CompileNot},
};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsBitwise = kOps;

}  // namespace quern::cpu
