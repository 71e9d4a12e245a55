#include "ops/common/normalization.h"

#include <string>

namespace quern {

Status CheckVector(const InferContext& c, int i, const Dim& extent) {
  const std::optional<Dims> shape = c.input_shape(i);
  if (!shape) return OkStatus();
  if (shape->size() == 1 && (!(*shape)[0].is_constant() || !extent.is_constant() || (*shape)[0] == extent)) {
    return OkStatus();
  }
  return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(*shape) + "; [" +
                 extent.ToString() + "] is needed");
}

Status InferBiased(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0);
  if (x && c.HasInput(1)) {
    if (x->empty()) return c.Error("input '" + c.node().input(0)->name() + "' is a scalar, which takes no bias");
    QUERN_RETURN_IF_ERROR(CheckVector(c, 1, x->back()));
  }
  return InferUnary(c);
}

Status InferPerChannel(InferContext& c, int last) {
  if (const std::optional<Dims> x = c.input_shape(0)) {
    if (x->empty()) return c.Error("input '" + c.node().input(0)->name() + "' is a scalar; a batch is needed");
    const Dim channels = x->size() > 1 ? (*x)[1] : Dim(1);
    for (int i = 1; i <= last; ++i) QUERN_RETURN_IF_ERROR(CheckVector(c, i, channels));
  }
  return InferUnary(c);
}

Result<NormRows> MakeNormRows(const Node& node, const Shape& shape) {
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(node, node.GetInt("axis", -1), shape.rank()));
  return NormRows{axis, shape.num_elements(0, axis), shape.num_elements(axis, shape.rank())};
}

Status CheckBroadcastsToInput(const InferContext& c, int i) {
  const std::optional<Dims> x = c.input_shape(0), other = c.input_shape(i);
  if (!x || !other) return OkStatus();
  bool fits = other->size() <= x->size();
  for (size_t d = 0; fits && d < other->size(); ++d) {
    const Dim &from = (*other)[d], &to = (*x)[x->size() - other->size() + d];
    fits = !from.is_constant() || !to.is_constant() || from.value() == 1 || from.value() == to.value();
  }
  if (fits) return OkStatus();
  return c.Error("input '" + c.node().input(i)->name() + "' has shape " + DimsToString(*other) +
                 ", which does not broadcast to " + DimsToString(*x));
}

}  // namespace quern
