// Conversion of elements from one type to another, as Cast and CastLike define it.
#pragma once

#include "ops/op.h"

namespace quern {

// Output 0 is input 0 with elements of type `to`.
Status CastToOutput(EvalContext& c, DType to);
// Output 0 has input 0's shape and type `to`; integer contents that survive the conversion pass through.
Status InferCast(InferContext& c, DType to);

}  // namespace quern
