#include "format/onnx/type_proto.h"

#include <algorithm>

#include "format/onnx/field_reader.h"
#include "format/onnx/fields.h"

namespace quern::onnx {
namespace {

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
    if (number < 0 || number > static_cast<int>(DType::kI2)) {
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
    constexpr size_t kLongestName = 1000;
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
    if (param.empty() || param[0] == '?' || param == "-1") return Dim::Unknown();
    return Dim::Symbol(param);
  }

  const char* base_;
  const Limits& limits_;
};

}  // namespace

Result<ValueType> ParseType(std::string_view message, const char* base, const Limits& limits) {
  return TypeParser(base, limits).Type(message, 0);
}

}  // namespace quern::onnx
