// ConvTranspose: claimed here, computed as a convolution (cpu_convert_transposed_windows).
#include "provider/cpu/common/constant_expression.h"
#include "provider/cpu/common/transposed_window.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {
namespace {

std::string Reject(const Node& node, const CpuConfig& config) {
  const ValueType &x = node.input(0)->type(), &w = node.input(1)->type();
  if (x.dtype != DType::kF32) return std::string("type ") + DTypeName(x.dtype);
  if (!x.shape || x.rank() < 3 || x.rank() > 5) return std::to_string(x.rank()) + "-D operands";
  for (int i = 1; i < node.num_inputs(); ++i) {
    if (node.input(i) && !IsConstantOrFolded(node.input(i), config)) return "the weights are not constant";
  }
  if (!w.has_static_shape() || w.rank() != x.rank()) return "the weights' shape does not fit";
  if (Product(*w.shape).is_constant(0)) return "the weights are empty";
  if (!(*x.shape)[1].is_constant() || !node.output(0)->type().has_rank()) return "the number of channels is not known";
  const Result<TransposedWindow> window = ReadTransposedWindow(node);
  if (!window.ok()) return window.status().message();
  const bool woven = x.rank() == 5 || (x.rank() == 4 && window->strides[0] != window->strides[1]);
  if (woven && window->phases() > 1 && !(AllConstant(*x.shape) && node.output(0)->type().has_static_shape())) {
    return x.rank() == 5 ? "strides in three dimensions need known extents" : "strides that differ need known extents";
  }
  return {};
}

constexpr CpuOp kOps[] = {{"", "ConvTranspose", Reject, nullptr}};

}  // namespace

extern const std::span<const CpuOp> kCpuOpsConvTranspose = kOps;

}  // namespace quern::cpu
