// Types, positions and elements of sequences and optionals.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/op.h"

namespace quern {

inline ValueType SequenceOf(ValueType element) {
  return {ValueKind::kSequence, DType::kUndefined, std::nullopt, std::make_shared<const ValueType>(std::move(element))};
}
inline ValueType OptionalOf(ValueType element) {
  return {ValueKind::kOptional, DType::kUndefined, std::nullopt, std::make_shared<const ValueType>(std::move(element))};
}

// Nothing is known of a value of this type, not even its kind.
inline bool IsUnknown(const ValueType& type) {
  return type.is_tensor() && type.dtype == DType::kUndefined && !type.shape;
}

// The same kind and element type, of any shape.
ValueType WithOpenShape(const ValueType& type);
// The same with an unknown for each extent that is no number: elements of one sequence may differ in these.
ValueType WithOwnExtents(const ValueType& type);
// What values of either type have in common: shapes and extents that differ, or that one does not tell, stay open. An
// unknown type when the kinds or element types differ.
ValueType CommonType(const ValueType& a, const ValueType& b);

// What input i, a sequence or an optional, holds; an unknown type where inference cannot tell.
ValueType HeldType(const InferContext& c, int i);

// The elements of input i, a sequence of tensors of one element type; `dtype` is kUndefined when there are none.
struct TensorSequence {
  const ValueSequence* elements = nullptr;
  DType dtype = DType::kUndefined;
  size_t size() const { return elements->size(); }
  const Value& operator[](size_t i) const { return (*elements)[i]; }
};
Result<TensorSequence> ReadSequence(EvalContext& c, int i);

// The position that input i, one integer, gives in [-count, last]; a negative one counts back from `count`.
Result<int64_t> ReadPosition(EvalContext& c, int i, int64_t count, int64_t last);

// Whether a value is a tensor of numbers or strings.
inline bool IsTensorOrStrings(const Value& v) { return v.is_tensor() || v.kind() == ValueKind::kStringTensor; }

}  // namespace quern
