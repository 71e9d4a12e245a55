#include "ops/common/softmax.h"

namespace quern {
namespace {

constexpr int kOneAxisSince = 13;

Result<int> SoftmaxAxis(const Node& node, int rank) {
  const bool one_axis = node.opset() >= kOneAxisSince;
  const int64_t axis = node.GetInt("axis", one_axis ? -1 : 1);
  if (!one_axis && axis == rank) return rank;  // flattening to [size, 1] is allowed
  return NormalizeAxis(node, axis, rank);
}

}  // namespace

Status InferSoftmax(InferContext& c) {
  if (const std::optional<Dims> x = c.input_shape(0); x && !x->empty()) {
    QUERN_RETURN_IF_ERROR(SoftmaxAxis(c.node(), static_cast<int>(x->size())).status());
  }
  return InferUnary(c);
}

Result<SoftmaxLoops> MakeSoftmaxLoops(const EvalContext& c, const Shape& shape) {
  if (shape.rank() == 0) return SoftmaxLoops{1, 1, 1};
  QUERN_ASSIGN_OR_RETURN(const int axis, SoftmaxAxis(c.node(), shape.rank()));
  if (c.node().opset() < kOneAxisSince) {
    return SoftmaxLoops{shape.num_elements(0, axis), shape.num_elements(axis, shape.rank()), 1};
  }
  return SoftmaxLoops{shape.num_elements(0, axis), shape[axis], shape.num_elements(axis + 1, shape.rank())};
}

}  // namespace quern
