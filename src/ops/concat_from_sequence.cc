// ConcatFromSequence: joins the tensors of a sequence along `axis`, a new one when `new_axis` is 1.
#include <algorithm>

#include "ops/common/infer_common.h"
#include "ops/common/sequences.h"

namespace quern {
namespace {

// The axis in the shape of the result, whose parts have rank `rank`.
Result<int> OutputAxis(const Node& node, int rank) {
  const int64_t new_axis = node.GetInt("new_axis", 0);
  if (new_axis != 0 && new_axis != 1) {
    return InvalidArgument(node.Describe() + ": new_axis is " + std::to_string(new_axis) + ", it must be 0 or 1");
  }
  return NormalizeAxis(node, node.GetInt("axis", 0), rank + static_cast<int>(new_axis));
}

Status Infer(InferContext& c) {
  const ValueType held = HeldType(c, 0);
  ValueType joined = ValueType::Tensor(held.dtype, held.shape);
  if (joined.shape) {
    QUERN_ASSIGN_OR_RETURN(const int axis, OutputAxis(c.node(), joined.rank()));
    if (c.node().GetInt("new_axis", 0) != 0) {
      joined.shape->insert(joined.shape->begin() + axis, Dim::Unknown());
    } else {
      (*joined.shape)[axis] = Dim::Unknown();
    }
  }
  c.SetOutputType(0, std::move(joined));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const TensorSequence sequence, ReadSequence(c, 0));
  if (sequence.size() == 0) return c.Error("the sequence is empty: there is nothing to join");
  Shape shape = ShapeOf(sequence[0]);
  const int rank = shape.rank();
  QUERN_ASSIGN_OR_RETURN(const int axis, OutputAxis(c.node(), rank));
  const bool stack = c.node().GetInt("new_axis", 0) != 0;
  if (stack && rank == kMaxRank) return c.Error("the output would have " + std::to_string(rank + 1) + " dimensions");
  if (stack) {
    shape.insert(axis, static_cast<int64_t>(sequence.size()));
  } else {
    shape[axis] = 0;
  }
  for (size_t k = 0; k < sequence.size(); ++k) {
    const Shape& part = ShapeOf(sequence[k]);
    bool fits = part.rank() == rank;
    for (int d = 0; fits && d < rank; ++d) fits = (!stack && d == axis) || part[d] == ShapeOf(sequence[0])[d];
    if (!fits) {
      return c.Error("element " + std::to_string(k) + " of shape " + part.ToString() + " does not fit the first, of " +
                     ShapeOf(sequence[0]).ToString());
    }
    if (!stack && __builtin_add_overflow(shape[axis], part[axis], &shape[axis])) {
      return c.Error("the output would be too long in dimension " + std::to_string(axis));
    }
  }
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, sequence.dtype, shape));
  const int64_t outer = shape.num_elements(0, axis), row = shape.num_elements(axis, shape.rank());
  int64_t at = 0;
  for (size_t k = 0; k < sequence.size(); ++k) {
    QUERN_ASSIGN_OR_RETURN(const ElementInput part, ElementInput::Make(sequence[k]));
    const int64_t count = part.shape().num_elements(axis, rank);
    QUERN_RETURN_IF_ERROR(DispatchElements(sequence.dtype, [&]<typename T>() {
      for (int64_t o = 0; o < outer; ++o) std::copy_n(part.data<T>() + o * count, count, out.data<T>() + o * row + at);
      return OkStatus();
    }));
    at += count;
  }
  return out.Finish();
}

constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, true}, {"new_axis", AttrType::kInt, false, "0"}};
constexpr Param kInputs[] = {{"input_sequence", "S", {}, Arity::kSingle, ValueKind::kSequence}};
constexpr Param kOutputs[] = {{"concat_result", "T", AnyTypes(11)}};
constexpr OpVersion kVersions[] = {{11, kInputs, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpConcatFromSequence = {"", "ConcatFromSequence", kVersions};

}  // namespace quern
