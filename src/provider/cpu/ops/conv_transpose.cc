// ConvTranspose: claimed here, computed as a convolution (cpu_convert_transposed_windows) or as a product whose columns
// are added up (cpu_convert_transposed_blocks).
#include "provider/cpu/common/transposed_window.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {
namespace {

std::string Reject(const Node& node, const CpuConfig& config) {
  const ValueType &x = node.input(0)->type(), &w = node.input(1)->type();
  if (x.dtype != DType::kF32) return std::string("type ") + DTypeName(x.dtype);
  if (!x.shape || x.rank() < 3 || x.rank() > 5) return std::to_string(x.rank()) + "-D operands";
  if (!w.shape || w.rank() != x.rank()) return "the weights' shape does not fit";
  if (Product(*w.shape).is_constant(0)) return "the weights are empty";
  if (!(*x.shape)[1].is_constant() || !node.output(0)->type().has_rank()) return "the number of channels is not known";
  std::string why = RejectPhases(node, config);
  return why.empty() || ReadTransposedBlocks(node).ok() ? std::string() : why;
}

constexpr CpuOp kOps[] = {{"", "ConvTranspose", Reject, nullptr}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsConvTranspose = kOps;

}  // namespace quern::cpu
