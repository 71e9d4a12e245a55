// ReadTensorProto, ReadValueProto and their writers.
#include <limits>
#include <vector>

#include <protozero/pbf_writer.hpp>

#include "format/onnx/field_reader.h"
#include "format/onnx/fields.h"
#include "format/onnx/tensor_decoder.h"
#include "format/onnx/tensor_encoder.h"
#include "format/onnx/tensor_proto.h"

namespace quern {
namespace {

using onnx::ElementKind;
using onnx::FieldReader;
using onnx::MapField;
using onnx::OptionalField;
using onnx::SequenceField;
using onnx::TensorDecoder;
using onnx::TensorField;

constexpr size_t kLongestMessage = std::numeric_limits<int32_t>::max();  // what protobuf readers accept

// Reads nested values; depth counts the messages around the one at hand.
class ValueReader {
 public:
  explicit ValueReader(TensorDecoder& decoder) : decoder_(decoder) {}

  Result<Value> Read(std::string_view message, ValueKind kind, int depth) {
    if (depth > decoder_.limits().type_depth) {
      return ResourceExhausted("values nested deeper than " + std::to_string(decoder_.limits().type_depth));
    }
    QUERN_RETURN_IF_ERROR(decoder_.Charge(sizeof(Value)));
    switch (kind) {
      case ValueKind::kTensor:
      case ValueKind::kStringTensor:
        return decoder_.Decode(message);
      case ValueKind::kSequence:
        return ReadSequence(message, depth);
      case ValueKind::kOptional:
        return ReadOptional(message, depth);
      case ValueKind::kMap:
        return ReadMap(message, depth);
      case ValueKind::kNone:
        break;
    }
    return InvalidArgument("a value of no kind cannot be read");
  }

 private:
  Result<Value> ReadSequence(std::string_view message, int depth) {
    ValueSequence elements;
    int64_t elem_type = ElementKind::kUndefined;
    FieldReader r(message, decoder_.base());
    while (r.Next()) {
      ValueKind kind = ValueKind::kNone;
      switch (r.field()) {
        case SequenceField::kElemType:
          elem_type = r.Int64();
          continue;
        case SequenceField::kTensors:
          kind = ValueKind::kTensor;
          break;
        case SequenceField::kSequences:
          kind = ValueKind::kSequence;
          break;
        case SequenceField::kMaps:
          kind = ValueKind::kMap;
          break;
        case SequenceField::kOptionals:
          kind = ValueKind::kOptional;
          break;
        case SequenceField::kSparseTensors:
          return Unsupported("sequences of sparse tensors are not read");
        default:
          r.Skip();
          continue;
      }
      const std::string_view element = r.Bytes();
      if (!r.status().ok()) break;
      Result<Value> value = Read(element, kind, depth + 1);
      if (!value.ok()) return value.status().WithContext("element " + std::to_string(elements.size()));
      if (!elements.empty() && IsTensorKind(elements[0].kind()) != IsTensorKind(value->kind())) {
        return Corrupt("a sequence with elements of different kinds");
      }
      elements.push_back(std::move(value).value());
    }
    QUERN_RETURN_IF_ERROR(r.status());
    if (elem_type == ElementKind::kSparseTensor) return Unsupported("sequences of sparse tensors are not read");
    return Value::Sequence(std::move(elements));
  }

  Result<Value> ReadOptional(std::string_view message, int depth) {
    Value element;
    FieldReader r(message, decoder_.base());
    while (r.Next()) {
      ValueKind kind = ValueKind::kNone;
      switch (r.field()) {
        case OptionalField::kTensor:
          kind = ValueKind::kTensor;
          break;
        case OptionalField::kSequence:
          kind = ValueKind::kSequence;
          break;
        case OptionalField::kMap:
          kind = ValueKind::kMap;
          break;
        case OptionalField::kOptional:
          kind = ValueKind::kOptional;
          break;
        case OptionalField::kSparseTensor:
          return Unsupported("optional sparse tensors are not read");
        default:
          r.Skip();
          continue;
      }
      const std::string_view body = r.Bytes();
      if (!r.status().ok()) break;
      QUERN_ASSIGN_OR_RETURN(element, Read(body, kind, depth + 1));
    }
    QUERN_RETURN_IF_ERROR(r.status());
    return Value::Optional(std::move(element));
  }

  Result<Value> ReadMap(std::string_view message, int depth) {
    int64_t key_type = 0;
    std::vector<int64_t> keys;
    std::vector<std::string> string_keys;
    ValueSequence values;
    FieldReader r(message, decoder_.base());
    while (r.Next()) {
      switch (r.field()) {
        case MapField::kKeyType:
          key_type = r.Int64();
          break;
        case MapField::kKeys:
          r.Varints([&](uint64_t k) { keys.push_back(static_cast<int64_t>(k)); });
          break;
        case MapField::kStringKeys: {
          const std::string_view key = r.Bytes();
          QUERN_RETURN_IF_ERROR(decoder_.Charge(sizeof(std::string) + key.size()));
          string_keys.emplace_back(key);
          break;
        }
        case MapField::kValues: {
          const std::string_view body = r.Bytes();
          if (!r.status().ok()) break;
          QUERN_ASSIGN_OR_RETURN(const Value sequence, ReadSequence(body, depth + 1));
          values = sequence.sequence();
          break;
        }
        default:
          r.Skip();
      }
    }
    QUERN_RETURN_IF_ERROR(r.status());
    ValueMap map;
    if (key_type == static_cast<int>(DType::kString)) {
      return Fill<std::string>(std::move(string_keys), std::move(values));
    }
    return Fill<int64_t>(std::move(keys), std::move(values));
  }

  template <typename Key>
  static Result<Value> Fill(std::vector<Key> keys, ValueSequence values) {
    if (keys.size() != values.size()) {
      return Corrupt("a map with " + std::to_string(keys.size()) + " keys and " + std::to_string(values.size()) +
                     " values");
    }
    std::map<Key, Value> entries;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!entries.emplace(std::move(keys[i]), std::move(values[i])).second) return Corrupt("a map with a key twice");
    }
    return Value::Map(ValueMap{std::move(entries)});
  }

  static bool IsTensorKind(ValueKind kind) { return kind == ValueKind::kTensor || kind == ValueKind::kStringTensor; }

  TensorDecoder& decoder_;
};

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Field numbers of SequenceProto and OptionalProto agree: elem_type is the kind's number, its field two above.
Result<int> ElementKindOf(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kTensor:
    case ValueKind::kStringTensor:
      return int{ElementKind::kTensor};
    case ValueKind::kSequence:
      return int{ElementKind::kSequence};
    case ValueKind::kMap:
      return int{ElementKind::kMap};
    case ValueKind::kOptional:
      return int{ElementKind::kOptional};
    case ValueKind::kNone:
      break;
  }
  return InvalidArgument("a missing value cannot be written");
}
constexpr int ElementFieldOf(int kind) { return kind + 2; }
static_assert(ElementFieldOf(ElementKind::kTensor) == SequenceField::kTensors);
static_assert(ElementFieldOf(ElementKind::kOptional) == OptionalField::kOptional);

Result<std::string> CheckLength(std::string message) {
  if (message.size() > kLongestMessage) {
    return Unsupported("a serialized value of " + std::to_string(message.size()) + " bytes: protobuf ends at 2 GB");
  }
  return message;
}

Status WriteElement(protozero::pbf_writer& writer, const Value& element) {
  QUERN_ASSIGN_OR_RETURN(const int kind, ElementKindOf(element));
  QUERN_ASSIGN_OR_RETURN(const std::string body, WriteValueProto(element, ""));
  writer.add_message(static_cast<protozero::pbf_tag_type>(ElementFieldOf(kind)), body);
  return OkStatus();
}

Result<std::string> WriteSequence(const ValueSequence& elements, std::string_view name) {
  std::string out;
  protozero::pbf_writer writer(out);
  if (!name.empty()) writer.add_string(SequenceField::kName, name.data(), name.size());
  int kind = ElementKind::kTensor;
  if (!elements.empty()) {
    QUERN_ASSIGN_OR_RETURN(kind, ElementKindOf(elements[0]));
  }
  writer.add_int32(SequenceField::kElemType, kind);
  for (const Value& element : elements) QUERN_RETURN_IF_ERROR(WriteElement(writer, element));
  return CheckLength(std::move(out));
}

Result<std::string> WriteMap(const ValueMap& map, std::string_view name) {
  std::string out;
  protozero::pbf_writer writer(out);
  if (!name.empty()) writer.add_string(MapField::kName, name.data(), name.size());
  ValueSequence values;
  if (const auto* by_string = std::get_if<std::map<std::string, Value>>(&map.entries)) {
    writer.add_int32(MapField::kKeyType, static_cast<int>(DType::kString));
    for (const auto& [key, value] : *by_string) {
      writer.add_bytes(MapField::kStringKeys, key);
      values.push_back(value);
    }
  } else {
    writer.add_int32(MapField::kKeyType, static_cast<int>(DType::kI64));
    for (const auto& [key, value] : std::get<std::map<int64_t, Value>>(map.entries)) {
      writer.add_int64(MapField::kKeys, key);
      values.push_back(value);
    }
  }
  QUERN_ASSIGN_OR_RETURN(const std::string body, WriteSequence(values, ""));
  writer.add_message(MapField::kValues, body);
  return CheckLength(std::move(out));
}

}  // namespace

Result<Value> ReadTensorProto(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                              const Limits& limits) {
  const std::string_view text = AsText(bytes);
  TensorDecoder decoder(text.data(), std::move(owner), limits, nullptr);
  return decoder.Decode(text);
}

Result<Value> ReadValueProto(std::span<const std::byte> bytes, const ValueType& expected,
                             std::shared_ptr<const void> owner, const Limits& limits) {
  const std::string_view text = AsText(bytes);
  TensorDecoder decoder(text.data(), std::move(owner), limits, nullptr);
  return ValueReader(decoder).Read(text, expected.kind, 0);
}

Result<std::string> WriteTensorProto(const Value& value, std::string_view name) {
  QUERN_ASSIGN_OR_RETURN(onnx::EncodedMessage message, onnx::EncodeTensor(value, name, nullptr));
  if (message.size() > kLongestMessage) return Unsupported("a tensor of 2 GB or more does not fit a TensorProto");
  return std::move(message).ToString();
}

Result<std::string> WriteValueProto(const Value& value, std::string_view name) {
  switch (value.kind()) {
    case ValueKind::kTensor:
    case ValueKind::kStringTensor:
      return WriteTensorProto(value, name);
    case ValueKind::kSequence:
      return WriteSequence(value.sequence(), name);
    case ValueKind::kMap:
      return WriteMap(value.map(), name);
    case ValueKind::kOptional: {
      std::string out;
      protozero::pbf_writer writer(out);
      if (!name.empty()) writer.add_string(OptionalField::kName, name.data(), name.size());
      if (!value.optional_element().has_value()) {
        writer.add_int32(OptionalField::kElemType, ElementKind::kUndefined);
        return out;
      }
      QUERN_ASSIGN_OR_RETURN(const int kind, ElementKindOf(value.optional_element()));
      writer.add_int32(OptionalField::kElemType, kind);
      QUERN_RETURN_IF_ERROR(WriteElement(writer, value.optional_element()));
      return CheckLength(std::move(out));
    }
    case ValueKind::kNone:
      break;
  }
  return InvalidArgument("a missing value cannot be written");
}

}  // namespace quern
