#include "ops/common/elementwise.h"

namespace quern {

Result<Shape> BroadcastInputs(EvalContext& c) {
  Shape shape = c.input_value(0).tensor().shape();
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (!c.HasInput(i)) continue;
    const Shape& other = c.input_value(i).tensor().shape();
    const std::optional<Shape> joined = BroadcastShapes(shape, other);
    if (!joined) return c.Error("shapes " + shape.ToString() + " and " + other.ToString() + " do not broadcast");
    shape = *joined;
  }
  return shape;
}

}  // namespace quern
