#include "ops/common/legacy_broadcast.h"

#include <string>

namespace quern {
namespace {

// Where the first dimension of a tensor of rank `b` stands in one of rank `a`, or an error.
Result<int> LegacyAxis(const Node& node, int a, int b) {
  if (node.GetInt("broadcast", 0) == 0) {
    if (a == b) return 0;
    return InvalidArgument(node.Describe() + ": the inputs have ranks " + std::to_string(a) + " and " +
                           std::to_string(b) + "; without 'broadcast' = 1 they must be equal");
  }
  const int64_t* axis = node.FindAttribute<int64_t>("axis");
  const int64_t at = axis == nullptr ? a - b : *axis < 0 ? *axis + a : *axis;
  if (at < 0 || at + b > a) {
    return InvalidArgument(node.Describe() + ": an input of rank " + std::to_string(b) + " does not fit at axis " +
                           std::to_string(at) + " of one of rank " + std::to_string(a));
  }
  return static_cast<int>(at);
}

}  // namespace

Status InferLegacyBroadcast(InferContext& c) {
  const std::optional<Dims> a = c.input_shape(0), b = c.input_shape(1);
  c.SetOutputType(0, ValueType::Tensor(c.input_dtype(0), a));
  if (!a || !b) return OkStatus();
  QUERN_ASSIGN_OR_RETURN(const int at, LegacyAxis(c.node(), static_cast<int>(a->size()), static_cast<int>(b->size())));
  const bool repeats = c.node().GetInt("broadcast", 0) != 0;
  for (size_t d = 0; d < b->size(); ++d) {
    const Dim &from = (*b)[d], &to = (*a)[at + d];
    if (!from.is_constant() || !to.is_constant() || from.value() == to.value()) continue;
    if (!repeats || from.value() != 1) {
      return c.Error("shapes " + DimsToString(*a) + " and " + DimsToString(*b) + " do not broadcast");
    }
  }
  return OkStatus();
}

Result<Tensor> LegacyBroadcastInput(EvalContext& c) {
  QUERN_RETURN_IF_ERROR(InferredOutputs::Make(c, InferLegacyBroadcast).status());
  const Tensor& b = c.input(1);
  const int rank = c.input_value(0).tensor().rank();
  QUERN_ASSIGN_OR_RETURN(const int at, LegacyAxis(c.node(), rank, b.rank()));
  Shape shape = Shape::Filled(rank, 1);
  for (int d = 0; d < b.rank(); ++d) shape[at + d] = b.dim(d);
  return b.Reshaped(shape);
}

}  // namespace quern
