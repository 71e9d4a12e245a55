// What the indices of MaxUnpool count in: the tensor that was pooled. Where output_shape is given, that is a tensor of
// this shape, as onnxruntime and PyTorch have it; onnx's own example counts in the smaller shape that kernel and
// strides imply, and is told by indices that are far from the windows of the given shape.
#pragma once

#include <optional>

#include "ops/common/window.h"
#include "tensor/shape.h"

namespace quern {

// The shape that kernel, strides and pads imply for what was pooled to x.
Result<Dims> UnpooledDims(const Node& node, const Dims& x);

// The position that `index` has in a tensor of `shape`, or nothing when it is outside.
std::optional<Shape> PositionOf(int64_t index, const Shape& shape);

class UnpoolShapes {
 public:
  // `x` is the shape of the input and of the indices, `output_given` whether the node has an output_shape.
  static Result<UnpoolShapes> Make(const Node& node, const Shape& x, const Shape& output, bool output_given);

  // The shape that the indices, one for each element of the input, count in; no dimension exceeds the output's.
  const Shape& CountedIn(const int64_t* indices) const;

 private:
  Shape input_, output_, implied_;
  Window window_;
  bool may_be_implied_ = false;
};

}  // namespace quern
