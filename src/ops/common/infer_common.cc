#include "ops/common/infer_common.h"

#include <algorithm>

namespace quern {

Result<int> NormalizeAxis(const Node& node, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return InvalidArgument(node.Describe() + ": axis " + std::to_string(axis) + " is outside [" +
                           std::to_string(-rank) + ", " + std::to_string(rank - 1) + "] of a tensor of rank " +
                           std::to_string(rank));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<std::vector<int>> NormalizeAxes(const Node& node, std::span<const int64_t> axes, int rank) {
  std::vector<int> result;
  for (int64_t axis : axes) {
    QUERN_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(node, axis, rank));
    if (std::find(result.begin(), result.end(), normal) != result.end()) {
      return InvalidArgument(node.Describe() + ": axis " + std::to_string(axis) + " is given twice");
    }
    result.push_back(normal);
  }
  return result;
}

std::optional<std::vector<int64_t>> ConstantInts(const InferContext& context, int input) {
  const std::optional<Dims> data = context.input_data(input);
  if (!data || !AllConstant(*data)) return std::nullopt;
  std::vector<int64_t> values;
  values.reserve(data->size());
  for (const Dim& d : *data) values.push_back(d.value());
  return values;
}

AxesOperand ReadAxes(const InferContext& context, std::string_view attribute, int input) {
  if (const auto* ints = context.node().FindAttribute<std::vector<int64_t>>(attribute)) return {true, *ints};
  if (!context.HasInput(input)) return {};
  return {true, ConstantInts(context, input)};
}

Result<Dims> BroadcastDims(const Node& node, const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims result = longer;
  const size_t skip = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    Dim& d = result[skip + i];
    const Dim& e = shorter[i];
    if (e.is_constant(1)) continue;
    if (d.is_constant(1)) {
      d = e;
    } else if (d.is_constant() && e.is_constant()) {
      if (d.value() != e.value()) {
        return InvalidArgument(node.Describe() + ": shapes " + DimsToString(a) + " and " + DimsToString(b) +
                               " do not broadcast");
      }
    } else {
      d = Dim::Broadcast(d, e);
    }
  }
  return result;
}

Status InferSameAsInput(InferContext& context, int in, int out) {
  if (!context.HasInput(in)) return OkStatus();
  context.SetOutputType(out, context.input_type(in));
  return OkStatus();
}

Status InferUnary(InferContext& context) { return InferSameAsInput(context, 0, 0); }

Status InferBroadcastTo(InferContext& context, DType dtype) {
  ValueType type = ValueType::Tensor(dtype);
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (!context.HasInput(i)) continue;
    const std::optional<Dims>& shape = context.input_type(i).shape;
    if (!shape) {
      type.shape.reset();
      break;
    }
    if (!type.shape) {
      type.shape = shape;
    } else {
      QUERN_ASSIGN_OR_RETURN(type.shape, BroadcastDims(context.node(), *type.shape, *shape));
    }
  }
  context.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status InferBroadcast(InferContext& context) { return InferBroadcastTo(context, context.input_dtype(0)); }
Status InferBroadcastToBool(InferContext& context) { return InferBroadcastTo(context, DType::kBool); }

std::optional<Dims> PropagatedInput(const InferContext& context, int input) {
  if (!context.HasInput(input)) return std::nullopt;
  const ValueType& type = context.input_type(input);
  if (type.dtype != DType::kBool && !IsIntegerType(type.dtype)) return std::nullopt;
  if (!type.has_static_shape() || type.rank() > 1) return std::nullopt;
  if (type.rank() == 1 && type.shape->front().value() > kMaxPropagatedElements) return std::nullopt;
  return context.input_data(input);
}

}  // namespace quern
