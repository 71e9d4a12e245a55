#include "ops/common/input_shape.h"

namespace quern {

Status CheckShape(const InferContext& c, int i, const Dims& wanted) {
  const std::optional<Dims> shape = c.input_shape(i);
  if (!shape) return OkStatus();
  bool fits = shape->size() == wanted.size();
  for (size_t d = 0; fits && d < wanted.size(); ++d) {
    fits = !(*shape)[d].is_constant() || !wanted[d].is_constant() || (*shape)[d] == wanted[d];
  }
  if (fits) return OkStatus();
  return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(*shape) + "; " +
                 DimsToString(wanted) + " is needed");
}

}  // namespace quern
