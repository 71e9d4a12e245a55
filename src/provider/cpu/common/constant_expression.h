// Nodes on constants that this provider computes once, at load, with its own kernels.
#pragma once

#include "graph/graph.h"
#include "provider/cpu/cpu_op.h"

namespace quern::cpu {

// The DequantizeLinear or ConstantOfShape of constants that makes `value`, if this provider computes it; else null.
// Passes fold it where a kernel packs the result.
const Node* ConstantExpression(const GraphValue* value, const CpuConfig& config);
bool IsConstantOrFolded(const GraphValue* value, const CpuConfig& config);

// The one output of a node whose inputs are constants and whose type is known, as its kernel computes it.
Result<Tensor> ComputeConstant(const Node& node, const CompileContext& context);

}  // namespace quern::cpu
