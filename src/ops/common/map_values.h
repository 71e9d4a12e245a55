// Maps as inputs: their values are tensors or string tensors of one element each.
#pragma once

#include <map>
#include <string>

#include "ops/common/elements.h"
#include "ops/op.h"

namespace quern {

// The element type of the values of the map that input i is, when it is known; an error unless it is in `allowed`, or
// when the keys are not of type `keys`.
inline Result<DType> InferMapValues(const InferContext& c, int i, DType keys, TypeSet allowed) {
  const ValueType& type = c.input_type(i);
  if (type.kind != ValueKind::kMap) return DType::kUndefined;
  if (type.dtype != DType::kUndefined && type.dtype != keys) {
    return c.Error(std::string("the map has keys of type ") + DTypeName(type.dtype) + ", " + DTypeName(keys) +
                   " is needed");
  }
  const DType values = type.element ? type.element->dtype : DType::kUndefined;
  if (values != DType::kUndefined && !allowed.Has(values)) {
    return c.Error(std::string("the map has values of type ") + DTypeName(values) + ", which is not admitted");
  }
  return values;
}

// The same of a map at hand: every value must be one element of one type. An empty map has the type that the graph
// tells of it, or float.
template <typename Key>
Result<DType> CheckMapValues(EvalContext& c, int i, const std::map<Key, Value>& map, TypeSet allowed) {
  DType common = DType::kUndefined;
  for (const auto& [key, value] : map) {
    if (!value.is_tensor() && value.kind() != ValueKind::kStringTensor) {
      return c.Error(std::string("a value of the map is a ") + ValueKindName(value.kind()) + ", a tensor is needed");
    }
    const DType dtype = ElementTypeOf(value);
    if (ShapeOf(value).num_elements() != 1) {
      return c.Error("a value of the map has shape " + ShapeOf(value).ToString() + ", one element is needed");
    }
    if (!allowed.Has(dtype) || (common != DType::kUndefined && dtype != common)) {
      return c.Error(std::string("the map has values of type ") + DTypeName(dtype) +
                     (allowed.Has(dtype) ? std::string(" and ") + DTypeName(common) : ", which is not admitted"));
    }
    common = dtype;
  }
  if (common != DType::kUndefined) return common;
  const ValueType& type = c.node().input(i)->type();
  const DType told = type.kind == ValueKind::kMap && type.element ? type.element->dtype : DType::kUndefined;
  return allowed.Has(told) ? told : DType::kF32;
}

// The element of such a value; T as DispatchElements gives.
template <typename T>
Result<T> MapElement(const Value& value) {
  QUERN_ASSIGN_OR_RETURN(const ElementInput element, ElementInput::Make(value));
  return *element.data<T>();
}

}  // namespace quern
