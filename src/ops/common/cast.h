// Conversion of elements from one type to another, as Cast and CastLike define it.
#pragma once

#include "ops/common/any_types.h"
#include "ops/op.h"

namespace quern {

// What Cast and CastLike of an operator set convert from and to: all types but the complex ones.
constexpr TypeSet CastTypes(int since) {
  return since >= 9 ? AnyNumbers(since) | TypeSet{DType::kString} : AnyNumbers(since);
}

// Output 0 is input 0 with elements of type `to`.
Status CastToOutput(EvalContext& c, DType to);
// Output 0 has input 0's shape and type `to`; integer contents that survive the conversion pass through. An error for
// attributes whose values are not known.
Status InferCast(InferContext& c, DType to);

}  // namespace quern
