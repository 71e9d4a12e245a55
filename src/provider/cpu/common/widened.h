// Operators of 16-bit floats that run as those of float32: their operands are widened, which is exact, and results are
// rounded once, as the reference does.
#pragma once

#include "provider/cpu/cpu_op.h"

namespace quern::cpu {

// f16 or bf16.
bool IsHalf(DType dtype);
bool HasHalfInput(const Node& node);
// A tensor of 16-bit floats as float32; an error when there is no memory for it.
Result<Tensor> WidenConstant(const Tensor& half);

// Empty when the node, which has a 16-bit input, has a kernel once all of them are float32 (cpu_widen_floats makes them
// so); else the reason.
std::string RejectWidened(const Node& node, const CpuConfig& config);

}  // namespace quern::cpu
