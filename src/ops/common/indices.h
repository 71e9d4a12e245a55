// Tensors of indices: checked against the extent that they index, negative ones counted from the end.
#pragma once

#include <vector>

#include "ops/common/elements.h"
#include "ops/op.h"

namespace quern {

// "index 7 is outside [-4, 3]"
inline Status IndexError(const Node& node, int64_t index, int64_t extent) {
  return InvalidArgument(node.Describe() + ": index " + std::to_string(index) + " is outside [" +
                         std::to_string(-extent) + ", " + std::to_string(extent - 1) + "]");
}

// The indices of input i, made non-negative; an error that names the node and the value when one is out of range.
inline Result<std::vector<int64_t>> ReadIndices(EvalContext& c, int i, int64_t extent) {
  QUERN_ASSIGN_OR_RETURN(std::vector<int64_t> indices, ReadInts(c, i));
  for (int64_t& index : indices) {
    if (index < -extent || index >= extent) return IndexError(c.node(), index, extent);
    if (index < 0) index += extent;
  }
  return indices;
}

// Steps through the positions of a shape in row-major order.
class IndexCounter {
 public:
  explicit IndexCounter(const Shape& shape) : shape_(shape), index_(Shape::Filled(shape.rank(), 0)) {}
  const Shape& index() const { return index_; }
  void Next() {
    for (int d = shape_.rank() - 1; d >= 0; --d) {
      if (++index_[d] < shape_[d]) return;
      index_[d] = 0;
    }
  }

 private:
  Shape shape_, index_;
};

}  // namespace quern
