// Serialized values: the first byte picks the message, the rest is one. What can be read can be written and read again.
#include <cstdint>

#include "base/check.h"
#include "format/onnx/tensor_proto.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quern;
  if (size == 0) return 0;
  constexpr ValueKind kKinds[] = {ValueKind::kTensor, ValueKind::kSequence, ValueKind::kOptional, ValueKind::kMap};
  ValueType type;
  type.kind = kKinds[data[0] % 4];
  Limits limits;
  limits.memory_bytes = int64_t{128} << 20;
  limits.tensor_bytes = int64_t{16} << 20;
  const std::shared_ptr<const void> owner(data, [](const void*) {});
  const Result<Value> value =
      ReadValueProto({reinterpret_cast<const std::byte*>(data) + 1, size - 1}, type, owner, limits);
  if (!value.ok()) return 0;
  const Result<std::string> written = WriteValueProto(*value, "x");
  QUERN_CHECK(written.ok(), written.status().message().c_str());
  const Result<Value> again = ReadValueProto(std::as_bytes(std::span(*written)), type);
  QUERN_CHECK(again.ok(), again.status().message().c_str());
  QUERN_CHECK(*WriteValueProto(*again, "x") == *written, "reading what was written changed it");
  return 0;
}
