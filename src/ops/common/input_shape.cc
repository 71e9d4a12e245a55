#include "ops/common/input_shape.h"

namespace quern {

Status CheckInputShape(const InferContext& c, int i, const Dims& want) {
  const std::optional<Dims> shape = c.input_shape(i);
  if (!shape) return OkStatus();
  bool fits = shape->size() == want.size();
  for (size_t d = 0; fits && d < want.size(); ++d) fits = !Differ((*shape)[d], want[d]);
  if (fits) return OkStatus();
  return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(*shape) + "; " +
                 DimsToString(want) + " is needed");
}

}  // namespace quern
