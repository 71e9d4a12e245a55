#include "api/value.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/checked_math.h"
#include "format/onnx/tensor_proto.h"

namespace quern::api {

Result<Shape> ReadShape(int32_t rank, const int64_t* dims) {
  if (rank < 0 || rank > kMaxRank) {
    return InvalidArgument("rank " + std::to_string(rank) + " is not in 0.." + std::to_string(kMaxRank));
  }
  if (rank > 0) QUERN_RETURN_IF_ERROR(RequirePointer(dims, "dims"));
  Shape shape;
  for (int32_t i = 0; i < rank; ++i) {
    if (dims[i] < 0) {
      return InvalidArgument("dims[" + std::to_string(i) + "] is " + std::to_string(dims[i]) + ", below zero");
    }
    shape.push_back(dims[i]);
  }
  return shape;
}

Result<DType> ReadDType(int32_t dtype) {
  if (dtype > 0 && dtype < 256) {
    const auto t = static_cast<DType>(dtype);
    if (t == DType::kString || GetDTypeInfo(t).block_bytes != 0) return t;
  }
  return InvalidArgument(std::to_string(dtype) + " is no element type");
}

namespace {

Status CheckReach(DType dtype, const Shape& shape, const Shape& strides, size_t bytes) {
  int64_t last = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (strides[i] < 0) {
      return InvalidArgument("strides[" + std::to_string(i) + "] is " + std::to_string(strides[i]) +
                             "; strides below zero are not supported, copy the data");
    }
    const std::optional<int64_t> step = CheckedMul<int64_t>(shape[i] - 1, strides[i]);
    const std::optional<int64_t> sum = step ? CheckedAdd<int64_t>(last, *step) : std::nullopt;
    if (!sum) return InvalidArgument("strides " + strides.ToString() + " overflow");
    last = *sum;
  }
  const uint64_t elements = bytes / DTypeBytes(dtype);
  if (static_cast<uint64_t>(last) >= elements) {
    return InvalidArgument("strides " + strides.ToString() + " over shape " + shape.ToString() + " reach element " +
                           std::to_string(last) + ", the memory has " + std::to_string(elements));
  }
  return OkStatus();
}

Result<Tensor> WrapTensor(int32_t dtype_number, int32_t rank, const int64_t* dims, const int64_t* strides, void* data,
                          size_t bytes, std::shared_ptr<const void> owner) {
  QUERN_ASSIGN_OR_RETURN(const DType dtype, ReadDType(dtype_number));
  QUERN_ASSIGN_OR_RETURN(const Shape shape, ReadShape(rank, dims));
  QUERN_ASSIGN_OR_RETURN(const size_t needed, TensorBytes(dtype, shape));
  if (needed > 0) QUERN_RETURN_IF_ERROR(RequirePointer(data, "data"));
  if (reinterpret_cast<uintptr_t>(data) % DTypeAlignment(dtype) != 0) {
    return InvalidArgument(std::string("data is not aligned for ") + DTypeName(dtype));
  }
  if (strides && DTypeBytes(dtype) != 0) {
    const Shape given(std::span<const int64_t>(strides, static_cast<size_t>(rank)));
    if (needed > 0) QUERN_RETURN_IF_ERROR(CheckReach(dtype, shape, given, bytes));
    return Tensor::WrapStrided(dtype, shape, given, data, std::move(owner));
  }
  if (strides && !(Shape(std::span<const int64_t>(strides, static_cast<size_t>(rank))) == shape.ContiguousStrides())) {
    return InvalidArgument(std::string("tensors of ") + DTypeName(dtype) + " must be contiguous");
  }
  if (bytes < needed) {
    return InvalidArgument("shape " + shape.ToString() + " of " + DTypeName(dtype) + " takes " +
                           std::to_string(needed) + " bytes, " + std::to_string(bytes) + " were given");
  }
  return Tensor::Wrap(dtype, shape, data, std::move(owner));
}

// Calls a caller's release function when the last view of its memory goes; disarmed until the value exists.
struct CallerMemory {
  quern_release_fn release;
  void* user;
  void* data;
  bool armed = false;
  CallerMemory(quern_release_fn r, void* u, void* d) : release(r), user(u), data(d) {}
  CallerMemory(const CallerMemory&) = delete;
  CallerMemory& operator=(const CallerMemory&) = delete;
  ~CallerMemory() {
    if (armed) release(user, data);
  }
};

Result<Value> MakeMap(const quern_value* keys, const quern_value* const* values, size_t count) {
  QUERN_RETURN_IF_ERROR(RequirePointer(keys, "keys"));
  if (count > 0) QUERN_RETURN_IF_ERROR(RequirePointer(values, "values"));
  for (size_t i = 0; i < count; ++i) QUERN_RETURN_IF_ERROR(RequirePointer(values[i], "values[]"));
  const Value& k = keys->value;
  const bool integers = k.is_tensor() && k.tensor().dtype() == DType::kI64;
  const bool strings = k.kind() == ValueKind::kStringTensor;
  if (!integers && !strings) return InvalidArgument("the keys of a map are an i64 tensor or strings");
  const Shape& shape = integers ? k.tensor().shape() : k.strings().shape;
  if (shape.rank() != 1 || shape[0] != static_cast<int64_t>(count)) {
    return InvalidArgument("the map has " + std::to_string(count) + " values, its keys have shape " + shape.ToString());
  }
  ValueMap map;
  size_t made = 0;
  if (integers) {
    QUERN_ASSIGN_OR_RETURN(const Tensor dense, k.tensor().Contiguous());
    std::map<int64_t, Value> entries;
    for (size_t i = 0; i < count; ++i) entries.emplace(dense.values<int64_t>()[i], values[i]->value);
    made = entries.size();
    map.entries = std::move(entries);
  } else {
    std::map<std::string, Value> entries;
    for (size_t i = 0; i < count; ++i) entries.emplace(k.strings().values[i], values[i]->value);
    made = entries.size();
    map.entries = std::move(entries);
  }
  if (made != count) return InvalidArgument("a key of the map occurs twice");
  return Value::Map(std::move(map));
}

Result<Value> KeysOf(const Value& value) {
  if (value.kind() != ValueKind::kMap) return InvalidArgument("only maps have keys");
  if (const auto* integers = std::get_if<std::map<int64_t, Value>>(&value.map().entries)) {
    QUERN_ASSIGN_OR_RETURN(Tensor t, Tensor::Allocate(DType::kI64, Shape{static_cast<int64_t>(integers->size())}));
    int64_t* out = t.data<int64_t>();
    for (const auto& [key, unused] : *integers) *out++ = key;
    return Value(std::move(t));
  }
  StringTensor keys;
  for (const auto& [key, unused] : std::get<std::map<std::string, Value>>(value.map().entries))
    keys.values.push_back(key);
  keys.shape = Shape{static_cast<int64_t>(keys.values.size())};
  return Value(std::move(keys));
}

size_t CountOf(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kSequence:
      return value.sequence().size();
    case ValueKind::kOptional:
      return value.optional_element().has_value();
    case ValueKind::kMap:
      return std::visit([](const auto& entries) { return entries.size(); }, value.map().entries);
    default:
      return 0;
  }
}

Status NumbersOf(const Value& value, DType dtype, void* out, size_t count) {
  if (value.kind() != ValueKind::kMap) return InvalidArgument("the value is no map");
  if (const size_t values = CountOf(value); values != count) {
    return InvalidArgument("the map has " + std::to_string(values) + " values, there is room for " +
                           std::to_string(count));
  }
  auto* to = static_cast<std::byte*>(out);
  const auto copy_all = [&](const auto& entries) -> Status {
    for (const auto& [key, v] : entries) {
      if (!v.is_tensor() || v.tensor().dtype() != dtype || v.tensor().shape().rank() != 0 || DTypeBytes(dtype) == 0) {
        return InvalidArgument(std::string("a value of the map is a ") + TypeToString(TypeOf(v)) +
                               ", not a scalar of type " + DTypeName(dtype));
      }
      std::memcpy(to, v.tensor().raw_data(), DTypeBytes(dtype));
      to += DTypeBytes(dtype);
    }
    return OkStatus();
  };
  return std::visit(copy_all, value.map().entries);
}

Value ElementOf(const Value& value, size_t index) {
  if (value.kind() == ValueKind::kSequence) return value.sequence()[index];
  if (value.kind() == ValueKind::kOptional) return value.optional_element();
  return std::visit(
      [&](const auto& entries) { return std::next(entries.begin(), static_cast<ptrdiff_t>(index))->second; },
      value.map().entries);
}

const Shape* ShapeOf(const quern_value* value) {
  if (!value) return nullptr;
  if (value->value.is_tensor()) return &value->value.tensor().shape();
  if (value->value.kind() == ValueKind::kStringTensor) return &value->value.strings().shape;
  return nullptr;
}

}  // namespace
}  // namespace quern::api

using quern::InvalidArgument;
using quern::OkStatus;
using quern::Result;
using quern::Status;
using quern::Tensor;
using quern::Value;
using quern::ValueKind;
using quern::api::Guard;
using quern::api::NewValue;
using quern::api::RequirePointer;

extern "C" {

quern_status quern_tensor_create(int32_t dtype, int32_t rank, const int64_t* dims, quern_value** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    QUERN_ASSIGN_OR_RETURN(const quern::DType type, quern::api::ReadDType(dtype));
    QUERN_ASSIGN_OR_RETURN(const quern::Shape shape, quern::api::ReadShape(rank, dims));
    QUERN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type, shape));
    *out = NewValue(std::move(tensor));
    return OkStatus();
  });
}

quern_status quern_tensor_wrap(int32_t dtype, int32_t rank, const int64_t* dims, const int64_t* strides, void* data,
                               size_t bytes, quern_release_fn release, void* user, quern_value** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    std::shared_ptr<quern::api::CallerMemory> owner;
    if (release) owner = std::make_shared<quern::api::CallerMemory>(release, user, data);
    QUERN_ASSIGN_OR_RETURN(Tensor tensor, quern::api::WrapTensor(dtype, rank, dims, strides, data, bytes, owner));
    *out = NewValue(std::move(tensor));
    if (owner) owner->armed = true;
    return OkStatus();
  });
}

quern_status quern_strings_create(int32_t rank, const int64_t* dims, const char* const* values, const size_t* lengths,
                                  quern_value** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    quern::StringTensor strings;
    QUERN_ASSIGN_OR_RETURN(strings.shape, quern::api::ReadShape(rank, dims));
    const std::optional<int64_t> count = quern::CheckedProduct(strings.shape.span());
    if (!count) return InvalidArgument("shape " + strings.shape.ToString() + " is too large");
    if (*count > 0) QUERN_RETURN_IF_ERROR(RequirePointer(values, "values"));
    for (int64_t i = 0; i < *count; ++i) {
      if (!values[i]) return InvalidArgument("values[" + std::to_string(i) + "] must not be NULL");
      strings.values.emplace_back(values[i], lengths ? lengths[i] : std::strlen(values[i]));
    }
    *out = NewValue(std::move(strings));
    return OkStatus();
  });
}

quern_status quern_sequence_create(const quern_value* const* elements, size_t count, quern_value** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    if (count > 0) QUERN_RETURN_IF_ERROR(RequirePointer(elements, "elements"));
    quern::ValueSequence sequence;
    for (size_t i = 0; i < count; ++i) {
      QUERN_RETURN_IF_ERROR(RequirePointer(elements[i], "elements[]"));
      sequence.push_back(elements[i]->value);
    }
    *out = NewValue(Value::Sequence(std::move(sequence)));
    return OkStatus();
  });
}

quern_status quern_optional_create(const quern_value* element, quern_value** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    *out = NewValue(Value::Optional(element ? element->value : Value()));
    return OkStatus();
  });
}

quern_status quern_map_create(const quern_value* keys, const quern_value* const* values, size_t count,
                              quern_value** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    QUERN_ASSIGN_OR_RETURN(Value map, quern::api::MakeMap(keys, values, count));
    *out = NewValue(std::move(map));
    return OkStatus();
  });
}

quern_value* quern_value_share(const quern_value* value) {
  if (!value) return nullptr;
  return new (std::nothrow) quern_value{value->value};
}
void quern_value_free(quern_value* value) { delete value; }

quern_kind quern_value_kind(const quern_value* value) {
  return value ? static_cast<quern_kind>(value->value.kind()) : QUERN_KIND_NONE;
}
int32_t quern_value_dtype(const quern_value* value) {
  if (!value) return QUERN_UNDEFINED;
  if (value->value.kind() == ValueKind::kStringTensor) return QUERN_STRING;
  return value->value.is_tensor() ? static_cast<int32_t>(value->value.tensor().dtype()) : QUERN_UNDEFINED;
}
int32_t quern_value_rank(const quern_value* value) {
  const quern::Shape* shape = quern::api::ShapeOf(value);
  return shape ? shape->rank() : -1;
}
const int64_t* quern_value_dims(const quern_value* value) {
  const quern::Shape* shape = quern::api::ShapeOf(value);
  return shape ? shape->begin() : nullptr;
}
const int64_t* quern_value_strides(const quern_value* value) {
  return value && value->value.is_tensor() ? value->value.tensor().strides().begin() : nullptr;
}
void* quern_value_data(const quern_value* value) {
  return value && value->value.is_tensor() ? value->value.tensor().raw_data() : nullptr;
}
size_t quern_value_bytes(const quern_value* value) {
  return value && value->value.is_tensor() ? value->value.tensor().bytes() : 0;
}

quern_status quern_value_string(const quern_value* value, size_t index, const char** text, size_t* length) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(value, "value"));
    QUERN_RETURN_IF_ERROR(RequirePointer(text, "text"));
    if (value->value.kind() != ValueKind::kStringTensor) return InvalidArgument("the value holds no strings");
    const std::vector<std::string>& strings = value->value.strings().values;
    if (index >= strings.size()) {
      return InvalidArgument("string " + std::to_string(index) + " of " + std::to_string(strings.size()));
    }
    *text = strings[index].c_str();
    if (length) *length = strings[index].size();
    return OkStatus();
  });
}

size_t quern_value_count(const quern_value* value) { return value ? quern::api::CountOf(value->value) : 0; }

quern_status quern_value_element(const quern_value* value, size_t index, quern_value** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(value, "value"));
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    const size_t count = quern::api::CountOf(value->value);
    if (index >= count) return InvalidArgument("element " + std::to_string(index) + " of " + std::to_string(count));
    *out = NewValue(quern::api::ElementOf(value->value, index));
    return OkStatus();
  });
}

quern_status quern_value_keys(const quern_value* value, quern_value** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(value, "value"));
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    QUERN_ASSIGN_OR_RETURN(Value keys, quern::api::KeysOf(value->value));
    *out = NewValue(std::move(keys));
    return OkStatus();
  });
}

quern_status quern_value_map_numbers(const quern_value* value, int32_t dtype, void* out, size_t count) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(value, "value"));
    if (count > 0) QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    return quern::api::NumbersOf(value->value, static_cast<quern::DType>(dtype), out, count);
  });
}

quern_status quern_value_from_proto(quern_kind kind, const void* bytes, size_t size, quern_value** out) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(out, "out"));
    if (size > 0) QUERN_RETURN_IF_ERROR(RequirePointer(bytes, "bytes"));
    if (kind <= QUERN_KIND_NONE || kind > QUERN_KIND_MAP) return InvalidArgument("kind names no kind of value");
    const std::span<const std::byte> span(static_cast<const std::byte*>(bytes), size);
    Result<Value> value = Value();
    if (kind == QUERN_KIND_TENSOR || kind == QUERN_KIND_STRINGS) {
      value = quern::ReadTensorProto(span);
    } else {
      quern::ValueType expected;
      expected.kind = static_cast<ValueKind>(kind);
      value = quern::ReadValueProto(span, expected);
    }
    if (!value.ok()) return value.status();
    *out = NewValue(std::move(value).value());
    return OkStatus();
  });
}

quern_status quern_value_to_proto(const quern_value* value, const char* name, void** bytes, size_t* size) {
  return Guard([&]() -> Status {
    QUERN_RETURN_IF_ERROR(RequirePointer(value, "value"));
    QUERN_RETURN_IF_ERROR(RequirePointer(bytes, "bytes"));
    QUERN_RETURN_IF_ERROR(RequirePointer(size, "size"));
    QUERN_ASSIGN_OR_RETURN(const std::string text, quern::WriteValueProto(value->value, name ? name : ""));
    *bytes = quern::api::CopyText(text);
    *size = text.size();
    return OkStatus();
  });
}

}  // extern "C"
