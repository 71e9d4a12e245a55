#include "format/onnx/attribute.h"

#include <algorithm>

#include "format/onnx/field_reader.h"
#include "format/onnx/fields.h"
#include "format/onnx/type_proto.h"

namespace quern::onnx {
namespace {

// The elements of a list attribute: its field number, and how one field occurrence is read.
template <typename T, typename ReadField>
Result<Attribute> ReadList(const AttributeView& view, TensorDecoder& decoder, int field, ReadField read_field) {
  const size_t limit = static_cast<size_t>(std::max<int64_t>(decoder.limits().attribute_elements, 0));
  const auto too_many = [&] {
    return ResourceExhausted("a list of more elements than the limit of " + std::to_string(limit));
  };
  std::vector<T> list;
  bool overflow = false;
  const auto add = [&](T element) {
    if (list.size() == limit) {
      overflow = true;
    } else {
      list.push_back(std::move(element));
    }
  };
  FieldReader r(view.body, decoder.base());
  while (r.Next()) {
    if (r.field() == field) {
      QUERN_RETURN_IF_ERROR(read_field(r, add));
      if (overflow) return too_many();
    } else {
      r.Skip();
    }
  }
  QUERN_RETURN_IF_ERROR(r.status());
  QUERN_RETURN_IF_ERROR(decoder.Charge(list.capacity() * sizeof(T)));
  return Attribute(std::move(list));
}

struct Scalars {
  float f = 0;
  int64_t i = 0;
  std::string_view s, tensor, sparse_tensor, type;
  bool has_tensor = false, has_sparse_tensor = false, has_type = false;
};

Result<Scalars> ReadScalars(const AttributeView& view, const char* base) {
  Scalars out;
  FieldReader r(view.body, base);
  while (r.Next()) {
    switch (r.field()) {
      case AttributeField::kFloat:
        out.f = r.Float();
        break;
      case AttributeField::kInt:
        out.i = r.Int64();
        break;
      case AttributeField::kString:
        out.s = r.Bytes();
        break;
      case AttributeField::kTensor:
        out.tensor = r.Bytes(), out.has_tensor = true;
        break;
      case AttributeField::kTypeProto:
        out.type = r.Bytes(), out.has_type = true;
        break;
      case AttributeField::kSparseTensor:
        out.sparse_tensor = r.Bytes(), out.has_sparse_tensor = true;
        break;
      default:
        r.Skip();
    }
  }
  QUERN_RETURN_IF_ERROR(r.status());
  return out;
}

}  // namespace

Result<Attribute> ReadAttribute(const AttributeView& view, TensorDecoder& decoder) {
  QUERN_ASSIGN_OR_RETURN(const Scalars scalars, ReadScalars(view, decoder.base()));
  if (!view.reference.empty()) return Corrupt("refers to an attribute of a function, outside of one");
  switch (view.type) {
    // A number or string that equals its default may be left out by writers.
    case AttributeKind::kFloat:
      return Attribute(scalars.f);
    case AttributeKind::kInt:
      return Attribute(scalars.i);
    case AttributeKind::kString:
      return Attribute(std::string(scalars.s));
    case AttributeKind::kTensor: {
      if (!scalars.has_tensor) return Corrupt("has type TENSOR but no tensor");
      QUERN_ASSIGN_OR_RETURN(Value value, decoder.Decode(scalars.tensor));
      return Attribute(std::move(value));
    }
    case AttributeKind::kTypeProto: {
      if (!scalars.has_type) return Corrupt("has type TYPE_PROTO but no type");
      QUERN_ASSIGN_OR_RETURN(ValueType type, ParseType(scalars.type, decoder.base(), decoder.limits()));
      return Attribute(std::move(type));
    }
    case AttributeKind::kFloats:
      return ReadList<float>(view, decoder, AttributeField::kFloats, [](FieldReader& r, auto add) {
        r.Fixed<float>(add);
        return OkStatus();
      });
    case AttributeKind::kInts:
      return ReadList<int64_t>(view, decoder, AttributeField::kInts, [](FieldReader& r, auto add) {
        r.Varints([&](uint64_t v) { add(static_cast<int64_t>(v)); });
        return OkStatus();
      });
    case AttributeKind::kStrings:
      return ReadList<std::string>(view, decoder, AttributeField::kStrings, [&](FieldReader& r, auto add) {
        const std::string_view text = r.Bytes();
        QUERN_RETURN_IF_ERROR(decoder.Charge(text.size()));
        add(std::string(text));
        return OkStatus();
      });
    case AttributeKind::kTensors:
      return ReadList<Value>(view, decoder, AttributeField::kTensors, [&](FieldReader& r, auto add) {
        const std::string_view body = r.Bytes();
        QUERN_RETURN_IF_ERROR(r.status());
        QUERN_ASSIGN_OR_RETURN(Value value, decoder.Decode(body));
        add(std::move(value));
        return OkStatus();
      });
    case AttributeKind::kSparseTensor: {
      if (!scalars.has_sparse_tensor) return Corrupt("has type SPARSE_TENSOR but no sparse tensor");
      QUERN_ASSIGN_OR_RETURN(Value value, decoder.DecodeSparse(scalars.sparse_tensor));
      return Attribute(std::move(value));
    }
    case AttributeKind::kSparseTensors:
      return ReadList<Value>(view, decoder, AttributeField::kSparseTensors, [&](FieldReader& r, auto add) {
        const std::string_view body = r.Bytes();
        QUERN_RETURN_IF_ERROR(r.status());
        QUERN_ASSIGN_OR_RETURN(Value value, decoder.DecodeSparse(body));
        add(std::move(value));
        return OkStatus();
      });
    case AttributeKind::kTypeProtos:
      return Unsupported("lists of types are not read");
    case AttributeKind::kUndefined:
      return Corrupt("has neither a type nor a value");
    default:
      return Corrupt("has the unknown attribute type " + std::to_string(view.type));
  }
}

}  // namespace quern::onnx
