#include "ops/common/sequences.h"

namespace quern {

ValueType WithOpenShape(const ValueType& type) {
  ValueType open = type;
  open.shape.reset();
  if (type.element) open.element = std::make_shared<const ValueType>(WithOpenShape(*type.element));
  return open;
}

ValueType WithOwnExtents(const ValueType& type) {
  ValueType own = type;
  if (own.shape) {
    for (Dim& d : *own.shape) {
      if (!d.is_constant()) d = Dim::Unknown();
    }
  }
  if (type.element) own.element = std::make_shared<const ValueType>(WithOwnExtents(*type.element));
  return own;
}

ValueType CommonType(const ValueType& a, const ValueType& b) {
  if (IsUnknown(a)) return WithOpenShape(b);
  if (IsUnknown(b)) return WithOpenShape(a);
  if (a.kind != b.kind || a.dtype != b.dtype) return {};
  ValueType common = a;
  if (!a.shape || !b.shape || a.shape->size() != b.shape->size()) {
    common.shape.reset();
  } else {
    for (size_t i = 0; i < a.shape->size(); ++i) {
      if (!((*a.shape)[i] == (*b.shape)[i])) (*common.shape)[i] = Dim::Unknown();
    }
  }
  if (a.element || b.element) {
    const ValueType unknown;
    common.element = std::make_shared<const ValueType>(
        CommonType(a.element ? *a.element : unknown, b.element ? *b.element : unknown));
  }
  return common;
}

ValueType HeldType(const InferContext& c, int i) {
  const ValueType& type = c.input_type(i);
  if (!type.element) return {};
  // Models name the extents of the elements of an input by one symbol though they differ.
  const bool declared = type.kind == ValueKind::kSequence && c.node().input(i)->is_input();
  return declared ? WithOwnExtents(*type.element) : *type.element;
}

Result<TensorSequence> ReadSequence(EvalContext& c, int i) {
  if (c.input_value(i).kind() != ValueKind::kSequence) {
    return c.Error("input '" + c.node().input(i)->name() + "' is a " + ValueKindName(c.input_value(i).kind()) +
                   ", a sequence is needed");
  }
  TensorSequence sequence{&c.input_value(i).sequence()};
  const auto what = [&](size_t k) {
    return "element " + std::to_string(k) + " of '" + c.node().input(i)->name() + "' ";
  };
  for (size_t k = 0; k < sequence.size(); ++k) {
    if (!IsTensorOrStrings(sequence[k])) {
      return c.Error(what(k) + "is a " + ValueKindName(sequence[k].kind()) + ", a tensor is needed");
    }
    const DType dtype = ElementTypeOf(sequence[k]);
    if (k > 0 && dtype != sequence.dtype) {
      return c.Error(what(k) + "has element type " + DTypeName(dtype) + ", the ones before it have " +
                     DTypeName(sequence.dtype));
    }
    sequence.dtype = dtype;
  }
  return sequence;
}

Result<int64_t> ReadPosition(EvalContext& c, int i, int64_t count, int64_t last) {
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> position, ReadInts(c, i));
  if (position.size() != 1) {
    return c.Error("the position has " + std::to_string(position.size()) + " elements, it must be one number");
  }
  if (position[0] < -count || position[0] > last) {
    return c.Error("position " + std::to_string(position[0]) + " is not in a sequence of " + std::to_string(count));
  }
  return position[0] < 0 ? position[0] + count : position[0];
}

}  // namespace quern
