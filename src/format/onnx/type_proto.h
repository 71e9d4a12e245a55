// TypeProto to ValueType and back.
#pragma once

#include <string>
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

// The serialized TypeProto. Extents: numbers; names and formulas as dim_param; unknown ones, and formulas too long to
// be read back, as dimensions that say nothing. Empty for a type of which nothing is known, which a TypeProto cannot
// say.
std::string EncodeType(const ValueType& type);
// Whether the type names every element type, as runtimes ask of value_info.
bool HasElementTypes(const ValueType& type);

}  // namespace quern::onnx
