// What a Slice takes of a tensor: elements start, start + step, ... before end, per axis, with Python's rules for
// negative and large bounds.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "graph/graph.h"
#include "tensor/shape.h"

namespace quern {

// Start and number of elements of one axis whose bounds are numbers; the step is not 0.
struct SliceRange {
  int64_t start, step, count;
};
SliceRange SelectRange(int64_t extent, int64_t start, int64_t end, int64_t step);

struct SliceOperands {
  std::span<const int64_t> starts, ends;
  bool has_axes = false;  // else the first ones
  std::span<const int64_t> axes;
  std::span<const int64_t> steps;  // empty: 1
};
// Element i of the result is the one at offset + sum i_d * strides[d] of the contiguous tensor.
struct SlicePart {
  Shape shape, strides;
  int64_t offset = 0;
};
// Errors name the node.
Result<SlicePart> SelectPart(const Node& node, const Shape& shape, const SliceOperands& operands);

}  // namespace quern
