// MaxPool that also says where each largest element stands: channels first, as its indices count.
#pragma once

#include "provider/cpu/cpu_op.h"

namespace quern::cpu {

// A MaxPool node of f32, f64, i8 or u8 with one to three spatial dimensions.
Result<std::unique_ptr<CpuKernel>> CompileIndexedMaxPool(const Node& node, const CompileContext& context);

}  // namespace quern::cpu
