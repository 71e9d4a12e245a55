// TypeProto to ValueType.
#pragma once

#include <string_view>

#include "base/limits.h"
#include "base/status.h"
#include "graph/type.h"

namespace quern::onnx {

// `message` empty gives a type of which nothing is known. A dimension without value or name, with an empty name, with a
// name that starts with '?' (which exporters repeat for unrelated extents), or below zero becomes Dim::Unknown(); zero
// is the number zero. Errors: kUnsupported for sparse and opaque types, kResourceExhausted for Limits::type_depth,
// rank.
Result<ValueType> ParseType(std::string_view message, const char* base, const Limits& limits);

}  // namespace quern::onnx
