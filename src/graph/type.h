// ValueType: what is known of a graph value before it exists: kind, element type, shape.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/dtype.h"
#include "graph/dim.h"
#include "tensor/value.h"

namespace quern {

struct ValueType {
  ValueKind kind = ValueKind::kTensor;       // kStringTensor has dtype kString
  DType dtype = DType::kUndefined;           // element type; for a map the key type; kUndefined when not known
  std::optional<Dims> shape;                 // nothing: rank not known
  std::shared_ptr<const ValueType> element;  // of a sequence, optional or map (its values); else null

  static ValueType Tensor(DType dtype, std::optional<Dims> shape = std::nullopt) {
    return {dtype == DType::kString ? ValueKind::kStringTensor : ValueKind::kTensor, dtype, std::move(shape), nullptr};
  }
  bool is_tensor() const { return kind == ValueKind::kTensor || kind == ValueKind::kStringTensor; }
  bool has_rank() const { return shape.has_value(); }
  int rank() const { return static_cast<int>(shape->size()); }  // requires has_rank()
  bool has_static_shape() const { return shape.has_value() && AllConstant(*shape); }
};

// "f32[batch,3]", "f32[*]" (rank not known), "seq<i64[*]>", "opt<f32[1]>", "map<i64,f32[]>", "?" (nothing known).
std::string TypeToString(const ValueType& type);
bool operator==(const ValueType& a, const ValueType& b);
// What both say together: known beats unknown, a number beats a symbol; an error where they contradict each other
// (dtype, rank, or two different numbers).
Result<ValueType> MergeTypes(const ValueType& a, const ValueType& b);
// The type of a value at hand (all extents numbers).
ValueType TypeOf(const Value& value);
// Whether the tensor is one of these: its element type and extents are those that are known.
bool IsTensorWithin(const Tensor& tensor, const ValueType& type);

}  // namespace quern
