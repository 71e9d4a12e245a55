// Bitwise operators of two integer inputs, broadcast.
#pragma once

#include "ops/common/dispatch.h"
#include "ops/common/elementwise.h"

namespace quern {

inline constexpr TypeSet kIntegerTypes = kSignedIntTypes | kUnsignedIntTypes;

template <typename F>
Status EvaluateBitwise(EvalContext& c) {
  return EvaluateBinary(c, IntegerTypeList{}, F());
}

inline constexpr Param kBitwiseInputs[] = {{"A", "T", kIntegerTypes}, {"B", "T", kIntegerTypes}};
inline constexpr Param kBitwiseOutputs[] = {{"C", "T", kIntegerTypes}};
template <typename F>
inline constexpr OpVersion kBitwiseVersions[] = {
    {18, kBitwiseInputs, kBitwiseOutputs, {}, InferBroadcast, EvaluateBitwise<F>}};

}  // namespace quern
