// Values behind the C ABI: making handles and checking extents that callers give.
#pragma once

#include "api/error.h"
#include "provider/host.h"
#include "tensor/value.h"

namespace quern::api {

// A handle of the caller's; throws bad_alloc.
inline quern_value* NewValue(Value value) { return new quern_value{std::move(value)}; }

// The shape that a caller gave; kInvalidArgument for ranks and extents that cannot be.
Result<Shape> ReadShape(int32_t rank, const int64_t* dims);

// kInvalidArgument when the number is no element type.
Result<DType> ReadDType(int32_t dtype);

}  // namespace quern::api
