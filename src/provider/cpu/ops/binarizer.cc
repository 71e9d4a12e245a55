// ai.onnx.ml.Binarizer: 1 where an element is above the threshold, else 0.
#include "provider/cpu/common/plain_rows.h"

namespace quern::cpu {
namespace {

UnaryRow FindRow(const Node& node, const CpuConfig& config) {
  const DType dtype = node.input(0)->type().dtype;
  return ElementwiseRowFor(config)->unary(UnaryKind::kIsAbove, dtype, dtype);
}

std::string Reject(const Node& node, const CpuConfig& config) {
  return FindRow(node, config) ? std::string() : std::string("type ") + DTypeName(node.input(0)->type().dtype);
}

Result<std::unique_ptr<CpuKernel>> Compile(const Node& node, const CompileContext& context) {
  return MakePlainUnary({.name = node.op_type(),
                         .from = node.input(0)->type().dtype,
                         .kernel = ElementwiseRowFor(*context.config),
                         .rows = {FindRow(node, *context.config)},
                         .parameters = {.a = static_cast<double>(node.GetFloat("threshold", 0.0f))}});
}

constexpr CpuOp kOps[] = {{"ai.onnx.ml", "Binarizer", Reject, Compile}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsBinarizer = kOps;

}  // namespace quern::cpu
