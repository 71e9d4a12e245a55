#include "ops/common/reduce.h"

namespace quern {
namespace {

// Which dimensions are reduced; nothing when the axes are not known.
Result<std::optional<std::vector<bool>>> ReducedDimensions(const InferContext& c, int rank) {
  const AxesOperand axes = ReadAxes(c, "axes", 1);
  if (axes.given && !axes.values) return std::optional<std::vector<bool>>();
  if (!axes.given || axes.values->empty()) {
    return std::optional(std::vector<bool>(rank, c.node().GetInt("noop_with_empty_axes", 0) == 0));
  }
  std::vector<bool> reduced(rank, false);
  for (const int64_t axis : *axes.values) {
    if (rank == 0 && (axis == 0 || axis == -1)) continue;  // a scalar counts as one dimension here
    QUERN_ASSIGN_OR_RETURN(const int d, NormalizeAxis(c.node(), axis, rank));
    reduced[d] = true;
  }
  return std::optional(std::move(reduced));
}

}  // namespace

Status InferReduce(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0);
  const bool keep = c.node().GetInt("keepdims", 1) != 0;
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (x) {
    QUERN_ASSIGN_OR_RETURN(const auto reduced, ReducedDimensions(c, static_cast<int>(x->size())));
    if (reduced) {
      type.shape.emplace();
      for (size_t d = 0; d < x->size(); ++d) {
        if (!(*reduced)[d]) type.shape->push_back((*x)[d]);
        if ((*reduced)[d] && keep) type.shape->push_back(1);
      }
    } else if (keep) {
      type.shape.emplace();
      for (size_t d = 0; d < x->size(); ++d) type.shape->push_back(Dim::Unknown());
    }
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Result<ReducePlan> MakeReducePlan(EvalContext& c, const Shape& output) {
  const Shape& x = c.input_value(0).tensor().shape();
  std::vector<int64_t> axes = c.node().GetInts("axes");
  if (c.HasInput(1)) {
    QUERN_ASSIGN_OR_RETURN(axes, ToInt64s(c.input(1)));
  }
  std::vector<bool> reduced(x.rank(), axes.empty() && c.node().GetInt("noop_with_empty_axes", 0) == 0);
  for (const int64_t axis : axes) {
    if (x.rank() > 0) reduced[axis < 0 ? axis + x.rank() : axis] = true;
  }
  ReducePlan plan{Shape::Filled(x.rank(), 0), output.num_elements(), 1};
  int64_t stride = 1;
  for (int d = x.rank() - 1; d >= 0; --d) {
    if (reduced[d]) {
      plan.count *= x[d];
    } else {
      plan.output_strides[d] = stride;
      stride *= x[d];
    }
  }
  return plan;
}

}  // namespace quern
