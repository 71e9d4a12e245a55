// Values from and to serialized TensorProto, SequenceProto, OptionalProto and MapProto (the *.pb files of the ONNX
// backend tests, and values that cross the C ABI in serialized form).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/status.h"
#include "graph/type.h"
#include "tensor/value.h"

namespace quern {

// The tensor or string tensor of a TensorProto. With an `owner` that keeps `bytes` alive, the tensor views `bytes`
// where they are stored raw and aligned for the type; without one everything is copied. Errors: kCorrupt (with the
// byte), kUnsupported (element type, segments), kInvalidArgument (external data: there is no folder),
// kResourceExhausted.
Result<Value> ReadTensorProto(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                              const Limits& limits = {});

// The value of the message that serves values of `expected`'s kind; element types and shapes are not compared.
Result<Value> ReadValueProto(std::span<const std::byte> bytes, const ValueType& expected,
                             std::shared_ptr<const void> owner = nullptr, const Limits& limits = {});

// A serialized TensorProto (raw data; strings as string_data). kInvalidArgument for other kinds, kUnsupported for block
// types, which ONNX does not have, and for messages of 2 GB or more.
Result<std::string> WriteTensorProto(const Value& value, std::string_view name);

// The message that serves the value's kind. An empty sequence is written as a sequence of tensors.
Result<std::string> WriteValueProto(const Value& value, std::string_view name);

}  // namespace quern
