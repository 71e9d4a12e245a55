#include "format/onnx/type_proto.h"

#include <algorithm>

#include <protozero/pbf_writer.hpp>

#include "format/onnx/field_reader.h"
#include "format/onnx/fields.h"

namespace quern::onnx {
namespace {

constexpr size_t kLongestName = 1000;  // of an extent

class TypeParser {
 public:
  TypeParser(const char* base, const Limits& limits) : base_(base), limits_(limits) {}

  Result<ValueType> Type(std::string_view message, int depth) {
    if (depth > limits_.type_depth) {
      return ResourceExhausted("a type nested deeper than the limit of " + std::to_string(limits_.type_depth));
    }
    ValueType type;
    FieldReader r(message, base_);
    while (r.Next()) {
      const int field = r.field();
      switch (field) {
        case TypeField::kTensor: {
          QUERN_ASSIGN_OR_RETURN(type, Tensor(r.Bytes()));
          break;
        }
        case TypeField::kSequence:
        case TypeField::kOptional: {
          QUERN_ASSIGN_OR_RETURN(type, Container(r.Bytes(), TypeElementField::kElemType, depth));
          type.kind = field == TypeField::kSequence ? ValueKind::kSequence : ValueKind::kOptional;
          type.dtype = DType::kUndefined;
          break;
        }
        case TypeField::kMap: {
          QUERN_ASSIGN_OR_RETURN(type, Container(r.Bytes(), TypeMapField::kValueType, depth));
          type.kind = ValueKind::kMap;
          break;
        }
        case TypeField::kSparseTensor:
          return Unsupported("sparse tensors are not read");
        case TypeField::kOpaque:
          return Unsupported("opaque types are not read");
        default:
          r.Skip();
      }
    }
    QUERN_RETURN_IF_ERROR(r.status());
    return type;
  }

 private:
  // A sequence or optional (element in field 1), or a map (key type in field 1, value type in field 2).
  Result<ValueType> Container(std::string_view message, int element_field, int depth) {
    ValueType type;
    ValueType element;
    FieldReader r(message, base_);
    while (r.Next()) {
      if (r.field() == element_field) {
        QUERN_ASSIGN_OR_RETURN(element, Type(r.Bytes(), depth + 1));
      } else if (element_field == TypeMapField::kValueType && r.field() == TypeMapField::kKeyType) {
        QUERN_ASSIGN_OR_RETURN(type.dtype, ElementType(r.Int64()));
      } else {
        r.Skip();
      }
    }
    QUERN_RETURN_IF_ERROR(r.status());
    type.element = std::make_shared<const ValueType>(std::move(element));
    return type;
  }

  static Result<DType> ElementType(int64_t number) {
    if (number != 0 && !IsOnnxType(number)) {
      return Unsupported("element type " + std::to_string(number) + " is not known");
    }
    return static_cast<DType>(number);
  }

  Result<ValueType> Tensor(std::string_view message) {
    DType dtype = DType::kUndefined;
    std::optional<Dims> shape;
    FieldReader r(message, base_);
    while (r.Next()) {
      switch (r.field()) {
        case TypeTensorField::kElemType: {
          QUERN_ASSIGN_OR_RETURN(dtype, ElementType(r.Int64()));
          break;
        }
        case TypeTensorField::kShape: {
          QUERN_ASSIGN_OR_RETURN(shape, Shape(r.Bytes()));
          break;
        }
        default:
          r.Skip();
      }
    }
    QUERN_RETURN_IF_ERROR(r.status());
    return ValueType::Tensor(dtype, std::move(shape));
  }

  Result<Dims> Shape(std::string_view message) {
    const size_t max_rank = static_cast<size_t>(std::clamp(limits_.rank, 0, kMaxRank));
    Dims dims;
    FieldReader r(message, base_);
    while (r.Next()) {
      if (r.field() != ShapeField::kDim) {
        r.Skip();
        continue;
      }
      const std::string_view body = r.Bytes();
      if (dims.size() == max_rank) {
        return ResourceExhausted("a shape with more than " + std::to_string(max_rank) + " dimensions");
      }
      QUERN_ASSIGN_OR_RETURN(Dim dim, Extent(body));
      dims.push_back(std::move(dim));
    }
    QUERN_RETURN_IF_ERROR(r.status());
    return dims;
  }

  Result<Dim> Extent(std::string_view message) {
    int64_t value = -1;
    std::string_view param;
    FieldReader r(message, base_);
    while (r.Next()) {
      switch (r.field()) {
        case DimField::kValue:
          value = r.Int64();
          break;
        case DimField::kParam:
          param = r.Bytes();
          break;
        default:
          r.Skip();
      }
    }
    QUERN_RETURN_IF_ERROR(r.status());
    if (value >= 0) return Dim(value);
    if (param.size() > kLongestName) return Corrupt("a dimension name of " + std::to_string(param.size()) + " bytes");
    // What converters write for extents that they do not know is no name that two of them share.
    if (param.empty() || param[0] == '?' || param == "-1" || param == "None") return Dim::Unknown();
    return Dim::Symbol(param);
  }

  const char* base_;
  const Limits& limits_;
};

std::string EncodeExtent(const Dim& dim) {
  std::string out;
  protozero::pbf_writer writer(out);
  if (dim.is_constant()) {
    writer.add_int64(DimField::kValue, dim.value());
  } else if (!dim.has_unknown()) {
    const std::string name = dim.symbol().empty() ? dim.ToString() : std::string(dim.symbol());
    if (name.size() <= kLongestName) writer.add_string(DimField::kParam, name);
  }
  return out;
}

std::string EncodeTensorType(const ValueType& type) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_int32(TypeTensorField::kElemType, static_cast<int>(type.dtype));
  if (type.shape) {
    std::string shape;
    protozero::pbf_writer dims(shape);
    for (const Dim& d : *type.shape) dims.add_message(ShapeField::kDim, EncodeExtent(d));
    writer.add_message(TypeTensorField::kShape, shape);
  }
  return out;
}

}  // namespace

std::string EncodeType(const ValueType& type) {
  std::string out;
  protozero::pbf_writer writer(out);
  const std::string element = type.element ? EncodeType(*type.element) : std::string();
  std::string inner;
  protozero::pbf_writer container(inner);
  switch (type.kind) {
    case ValueKind::kNone:
      break;
    case ValueKind::kTensor:
    case ValueKind::kStringTensor:
      if (type.dtype != DType::kUndefined || type.shape) {
        writer.add_message(TypeField::kTensor, EncodeTensorType(type));
      }
      break;
    case ValueKind::kSequence:
    case ValueKind::kOptional:
      container.add_message(TypeElementField::kElemType, element);
      writer.add_message(type.kind == ValueKind::kSequence ? TypeField::kSequence : TypeField::kOptional, inner);
      break;
    case ValueKind::kMap:
      container.add_int32(TypeMapField::kKeyType, static_cast<int>(type.dtype));
      container.add_message(TypeMapField::kValueType, element);
      writer.add_message(TypeField::kMap, inner);
      break;
  }
  return out;
}

bool HasElementTypes(const ValueType& type) {
  switch (type.kind) {
    case ValueKind::kNone:
      return false;
    case ValueKind::kTensor:
    case ValueKind::kStringTensor:
      return type.dtype != DType::kUndefined && !IsBlockType(type.dtype);
    case ValueKind::kMap:
      if (type.dtype == DType::kUndefined) return false;
      break;
    case ValueKind::kSequence:
    case ValueKind::kOptional:
      break;
  }
  return type.element && HasElementTypes(*type.element);
}

Result<ValueType> ParseType(std::string_view message, const char* base, const Limits& limits) {
  return TypeParser(base, limits).Type(message, 0);
}

}  // namespace quern::onnx
