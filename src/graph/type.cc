#include "graph/type.h"

namespace quern {

std::string TypeToString(const ValueType& type) {
  const auto element = [&] { return type.element ? TypeToString(*type.element) : std::string("?"); };
  switch (type.kind) {
    case ValueKind::kNone:
      return "none";
    case ValueKind::kSequence:
      return "seq<" + element() + ">";
    case ValueKind::kOptional:
      return "opt<" + element() + ">";
    case ValueKind::kMap:
      return std::string("map<") + (type.dtype == DType::kUndefined ? "?" : DTypeName(type.dtype)) + "," + element() +
             ">";
    case ValueKind::kTensor:
    case ValueKind::kStringTensor:
      break;
  }
  if (type.dtype == DType::kUndefined && !type.shape) return "?";
  return std::string(type.dtype == DType::kUndefined ? "?" : DTypeName(type.dtype)) +
         (type.shape ? DimsToString(*type.shape) : "[*]");
}

bool operator==(const ValueType& a, const ValueType& b) {
  if (a.kind != b.kind || a.dtype != b.dtype || a.shape != b.shape) return false;
  if (!a.element || !b.element) return a.element == b.element;
  return *a.element == *b.element;
}

namespace {

bool KnowsNothing(const ValueType& t) { return t.is_tensor() && t.dtype == DType::kUndefined && !t.shape; }

Status Contradiction(const ValueType& a, const ValueType& b) {
  return InvalidArgument("type " + TypeToString(a) + " contradicts " + TypeToString(b));
}

}  // namespace

Result<ValueType> MergeTypes(const ValueType& a, const ValueType& b) {
  if (KnowsNothing(a)) return b;
  if (KnowsNothing(b)) return a;
  ValueType merged = a;
  if (a.is_tensor() && b.is_tensor()) {
    if (a.dtype == DType::kUndefined) {
      merged.dtype = b.dtype;
      merged.kind = b.kind;
    } else if (b.dtype != DType::kUndefined && a.dtype != b.dtype) {
      return Contradiction(a, b);
    }
  } else if (a.kind != b.kind) {
    return Contradiction(a, b);
  } else if (a.dtype == DType::kUndefined) {
    merged.dtype = b.dtype;
  } else if (b.dtype != DType::kUndefined && a.dtype != b.dtype) {
    return Contradiction(a, b);
  }
  if (!a.shape) {
    merged.shape = b.shape;
  } else if (b.shape) {
    if (a.shape->size() != b.shape->size()) return Contradiction(a, b);
    for (size_t i = 0; i < a.shape->size(); ++i) {
      const Dim &x = (*a.shape)[i], &y = (*b.shape)[i];
      if (x.is_constant() && y.is_constant() && !(x == y)) return Contradiction(a, b);
      // A number beats a symbol; a name or formula beats an unknown.
      if (!x.is_constant() && (y.is_constant() || (x.has_unknown() && !y.has_unknown()))) (*merged.shape)[i] = y;
    }
  }
  if (!a.element) {
    merged.element = b.element;
  } else if (b.element) {
    QUERN_ASSIGN_OR_RETURN(ValueType element, MergeTypes(*a.element, *b.element));
    merged.element = std::make_shared<const ValueType>(std::move(element));
  }
  return merged;
}

namespace {

ValueType FromShape(DType dtype, const Shape& shape) {
  return ValueType::Tensor(dtype, Dims(shape.begin(), shape.end()));
}

// The type of elements that are there; what differs between them is left open.
std::shared_ptr<const ValueType> CommonType(const Value& first, const ValueType* so_far) {
  ValueType t = TypeOf(first);
  if (so_far != nullptr && t.shape != so_far->shape) {
    if (t.shape && so_far->shape && t.shape->size() == so_far->shape->size()) {
      for (size_t i = 0; i < t.shape->size(); ++i) {
        if (!((*t.shape)[i] == (*so_far->shape)[i])) (*t.shape)[i] = Dim::Unknown();
      }
    } else {
      t.shape.reset();
    }
  }
  return std::make_shared<const ValueType>(std::move(t));
}

// Adds an element to what is known of those before it.
void Join(std::shared_ptr<const ValueType>& common, const Value& next) {
  if (common && next.is_tensor() && IsTensorWithin(next.tensor(), *common) && next.tensor().dtype() == common->dtype)
    return;
  common = CommonType(next, common.get());
}

}  // namespace

bool IsTensorWithin(const Tensor& tensor, const ValueType& type) {
  if (type.kind != ValueKind::kTensor) return false;
  if (type.dtype != DType::kUndefined && type.dtype != tensor.dtype()) return false;
  if (!type.shape) return true;
  bool fits = type.rank() == tensor.rank();
  for (int d = 0; fits && d < tensor.rank(); ++d) {
    const Dim& dim = (*type.shape)[static_cast<size_t>(d)];
    fits = !dim.is_constant() || dim.value() == tensor.dim(d);
  }
  return fits;
}

ValueType TypeOf(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kTensor:
      return FromShape(value.tensor().dtype(), value.tensor().shape());
    case ValueKind::kStringTensor:
      return FromShape(DType::kString, value.strings().shape);
    case ValueKind::kNone:
      return ValueType{ValueKind::kNone, DType::kUndefined, std::nullopt, nullptr};
    case ValueKind::kOptional: {
      ValueType t{ValueKind::kOptional, DType::kUndefined, std::nullopt, nullptr};
      if (value.optional_element().has_value()) t.element = CommonType(value.optional_element(), nullptr);
      return t;
    }
    case ValueKind::kSequence: {
      ValueType t{ValueKind::kSequence, DType::kUndefined, std::nullopt, nullptr};
      for (const Value& v : value.sequence()) Join(t.element, v);
      return t;
    }
    case ValueKind::kMap:
      break;
  }
  ValueType t{ValueKind::kMap, DType::kUndefined, std::nullopt, nullptr};
  const auto& entries = value.map().entries;
  std::visit(
      [&](const auto& map) {
        if (!map.empty()) t.dtype = entries.index() == 1 ? DType::kString : DType::kI64;  // without keys: of any type
        for (const auto& [key, v] : map) Join(t.element, v);
      },
      entries);
  return t;
}

}  // namespace quern
