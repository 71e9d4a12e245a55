#include "provider/cpu/common/constant_expression.h"

#include <algorithm>

#include "base/aligned_buffer.h"
#include "provider/cpu/common/quantization.h"

namespace quern::cpu {
namespace {

// A fill is kept as a constant up to the size that constant folding may make; beyond, each run makes it.
bool IsSmallFill(const Node& node, const CpuConfig& config) {
  const ValueType& type = node.output(0)->type();
  if (!node.Is("ConstantOfShape") || !node.input(0)->is_constant() || !type.has_static_shape()) return false;
  const Dim elements = Product(*type.shape);
  return elements.is_constant() &&
         elements.value() <=
             config.limits.folded_bytes / static_cast<int64_t>(std::max<size_t>(DTypeBytes(type.dtype), 1)) &&
         FindCpuOp("", "ConstantOfShape")->reject(node, config).empty();
}

TensorSpec SpecOf(DType dtype, const Shape& shape, const Tensor* constant) {
  return {
      .dtype = dtype, .shape = shape, .strides = shape.ContiguousStrides(), .contiguous = true, .constant = constant};
}

}  // namespace

const Node* ConstantExpression(const GraphValue* value, const CpuConfig& config) {
  if (const Node* node = DequantizedConstant(value, config)) return node;
  const Node* node = value ? value->producer() : nullptr;
  return node && IsSmallFill(*node, config) ? node : nullptr;
}

bool IsConstantOrFolded(const GraphValue* value, const CpuConfig& config) {
  return value->is_constant() || ConstantExpression(value, config);
}

Result<Tensor> ComputeConstant(const Node& node, const CompileContext& context) {
  const CpuOp* op = FindCpuOp(node.domain(), node.op_type());
  if (!op) return Internal(node.Describe() + ": the CPU provider has no such operator");
  const ValueType& type = node.output(0)->type();
  if (!type.has_static_shape()) return Internal(node.Describe() + ": a constant of unknown shape");
  QUERN_ASSIGN_OR_RETURN(const std::unique_ptr<CpuKernel> kernel, op->compile(node, context));

  std::vector<Tensor> constants(static_cast<size_t>(node.num_inputs()));
  std::vector<TensorSpec> inputs;
  std::vector<void*> input_data;
  for (int i = 0; i < node.num_inputs(); ++i) {
    const GraphValue* v = node.input(i);
    Tensor& constant = constants[static_cast<size_t>(i)];
    if (v) {
      QUERN_ASSIGN_OR_RETURN(constant, v->constant()->tensor().Contiguous());
    }
    inputs.push_back(v ? SpecOf(constant.dtype(), constant.shape(), &constant) : TensorSpec());
    input_data.push_back(v ? constant.raw_data() : nullptr);
  }
  Shape shape;
  for (const Dim& d : *type.shape) shape.push_back(d.value());
  QUERN_ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(type.dtype, shape));
  const TensorSpec output = SpecOf(type.dtype, shape, nullptr);
  void* output_data = result.raw_data();
  QUERN_ASSIGN_OR_RETURN(
      const std::unique_ptr<CpuStep> step,
      kernel->Bind({.inputs = inputs, .outputs = {&output, 1}, .concurrency = context.executor->concurrency()}));
  QUERN_ASSIGN_OR_RETURN(AlignedBuffer scratch, AlignedBuffer::Allocate(step->scratch_bytes()));
  QUERN_RETURN_IF_ERROR(step->Run({.inputs = input_data,
                                   .outputs = {&output_data, 1},
                                   .scratch = scratch.data(),
                                   .executor = context.executor,
                                   .cancel = nullptr}));
  return result;
}

}  // namespace quern::cpu
