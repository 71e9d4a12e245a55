// QLinearConv of the standard and of com.microsoft, whose channels may come last:
// y = rint(sum * x_scale * w_scale / y_scale) + y_zero_point.
#pragma once

#include "ops/common/type_sets.h"
#include "ops/op.h"

namespace quern {

Status InferQLinearConv(InferContext& context);
Status EvaluateQLinearConv(EvalContext& context);

inline constexpr Param kQLinearConvInputs[] = {
    {"x", "T1", kByteTypes},   {"x_scale", "", kF32Type},          {"x_zero_point", "T1", kByteTypes},
    {"w", "T2", kByteTypes},   {"w_scale", "", kF32Type},          {"w_zero_point", "T2", kByteTypes},
    {"y_scale", "", kF32Type}, {"y_zero_point", "T3", kByteTypes}, {"B", "T4", kI32Type, Arity::kOptional}};
inline constexpr Param kQLinearConvOutputs[] = {{"y", "T3", kByteTypes}};

}  // namespace quern
