// Sets of element types that many schemas name.
#pragma once

#include "ops/op.h"

namespace quern {

// The floats of operator sets before bfloat16 was admitted.
inline constexpr TypeSet kOldFloatTypes = {DType::kF32, DType::kF64, DType::kF16};
// Floats and the 32- and 64-bit integers: the arithmetic types of operator sets 6 to 12, and with bfloat16.
inline constexpr TypeSet kWideIntTypes = {DType::kI32, DType::kI64, DType::kU32, DType::kU64};
inline constexpr TypeSet kOldMathTypes = kOldFloatTypes | kWideIntTypes;
inline constexpr TypeSet kMathTypes = kFloatTypes | kWideIntTypes;
inline constexpr TypeSet kOldNumericTypes = kOldFloatTypes | kSignedIntTypes | kUnsignedIntTypes;
inline constexpr TypeSet kByteTypes = {DType::kI8, DType::kU8};
inline constexpr TypeSet kF32Type = {DType::kF32};
inline constexpr TypeSet kI32Type = {DType::kI32};
inline constexpr TypeSet kI64Type = {DType::kI64};

}  // namespace quern
