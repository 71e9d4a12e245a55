// Compress: the slices along `axis` (without it, the elements) where the condition is true.
#include <algorithm>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

// The axis, or nothing when the input counts as flattened.
Result<std::optional<int>> AxisOf(const Node& node, int rank) {
  const int64_t* axis = node.FindAttribute<int64_t>("axis");
  if (axis == nullptr) return std::optional<int>();
  QUERN_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(node, *axis, rank));
  return std::optional<int>(normal);
}

Status Infer(InferContext& c) {
  const std::optional<Dims> shape = c.input_shape(0), condition = c.input_shape(1);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (condition && condition->size() != 1) {
    return c.Error("the condition has shape " + DimsToString(*condition) + "; one dimension is needed");
  }
  Dim count = Dim::Unknown();
  if (const Value* value = c.input_constant(1); value != nullptr && value->is_tensor()) {
    QUERN_ASSIGN_OR_RETURN(const Tensor t, value->tensor().Contiguous());
    if (t.dtype() == DType::kBool) {
      const auto set = t.values<bool>();
      count = Dim(static_cast<int64_t>(std::count(set.begin(), set.end(), true)));
    }
  }
  if (c.node().FindAttribute<int64_t>("axis") == nullptr) {
    type.shape = Dims{count};
  } else if (shape) {
    QUERN_ASSIGN_OR_RETURN(const std::optional<int> axis, AxisOf(c.node(), static_cast<int>(shape->size())));
    type.shape = *shape;
    (*type.shape)[*axis] = count;
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const ElementInput x, ElementInput::Make(c, 0));
  const Tensor& condition = c.input(1);
  if (condition.rank() != 1) {
    return c.Error("the condition has shape " + condition.shape().ToString() + "; one dimension is needed");
  }
  Shape shape = x.shape();
  QUERN_ASSIGN_OR_RETURN(const std::optional<int> axis, AxisOf(c.node(), shape.rank()));
  if (!axis) shape = Shape{x.num_elements()};
  const int at = axis.value_or(0);
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < condition.dim(0); ++i) {
    if (!condition.data<bool>()[i]) continue;
    if (i >= shape[at]) {
      return c.Error("the condition is true at " + std::to_string(i) + " but there are only " +
                     std::to_string(shape[at]) + " entries to choose from");
    }
    chosen.push_back(i);
  }
  const int64_t n = shape[at], outer = shape.num_elements(0, at), inner = shape.num_elements(at + 1, shape.rank());
  shape[at] = static_cast<int64_t>(chosen.size());
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, x.dtype(), shape));
  if (out.num_elements() == 0) return out.Finish();
  QUERN_RETURN_IF_ERROR(DispatchElements(x.dtype(), [&]<typename T>() {
    T* y = out.data<T>();
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i : chosen) y = std::copy_n(x.data<T>() + (o * n + i) * inner, inner, y);
    }
    return OkStatus();
  }));
  return out.Finish();
}

constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt}};
template <int kSince>
constexpr Param kInputs[] = {{"input", "T", AnyTypes(kSince)}, {"condition", "T1", kBoolType}};
constexpr OpVersion kVersions[] = {{9, kInputs<9>, kOutputOfAnyType<9>, kAttributes, Infer, Evaluate},
                                   {11, kInputs<9>, kOutputOfAnyType<9>, kAttributes, Infer, Evaluate},
                                   {28, kInputs<13>, kOutputOfAnyType<13>, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpCompress = {"", "Compress", kVersions};

}  // namespace quern
