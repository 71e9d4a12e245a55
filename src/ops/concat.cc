// Concat: joins the inputs along `axis`.
#include <algorithm>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/infer_common.h"
#include "ops/common/view.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  int rank = -1;
  bool all_known = true;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.HasInput(i)) return c.Error("input " + std::to_string(i) + " is omitted but required");
    const ValueType& input = c.input_type(i);
    if (!input.shape) {
      all_known = false;
    } else if (rank < 0) {
      rank = input.rank();
    } else if (rank != input.rank()) {
      return c.Error("input '" + c.node().input(i)->name() + "' has rank " + std::to_string(input.rank()) +
                     ", the ones before it have " + std::to_string(rank));
    }
  }
  if (rank < 0) {
    c.SetOutputType(0, std::move(type));
    return OkStatus();
  }
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), c.node().GetInt("axis", 1), rank));
  Dims out;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const std::optional<Dims>& shape = c.input_type(i).shape;
    if (!shape) continue;
    if (out.empty()) {
      out = *shape;
      continue;
    }
    for (int d = 0; d < rank; ++d) {
      Dim& so_far = out[d];
      const Dim& next = (*shape)[d];
      if (d == axis) {
        so_far = so_far + next;
      } else if (so_far.is_constant() && next.is_constant()) {
        if (!(so_far == next)) {
          return c.Error("input '" + c.node().input(i)->name() + "' of shape " + DimsToString(*shape) +
                         " differs from the ones before it in dimension " + std::to_string(d));
        }
      } else if (next.is_constant() || (so_far.has_unknown() && !next.has_unknown())) {
        so_far = next;
      }
    }
  }
  if (!all_known) out[axis] = Dim::Unknown();
  const bool is_list = rank == 1 && out[0].is_constant() && out[0].value() <= kMaxPropagatedElements;
  const bool integer = IsIntegerType(type.dtype);
  type.shape = std::move(out);
  c.SetOutputType(0, std::move(type));
  if (!is_list || !integer) return OkStatus();
  Dims content;
  bool any = false;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (const std::optional<Dims> part = PropagatedInput(c, i)) {
      content.insert(content.end(), part->begin(), part->end());
      any = true;
    } else {  // a part that only a run knows leaves the rest known
      const Dims unknown = UnknownDims(c.input_type(i).shape->front().value());
      content.insert(content.end(), unknown.begin(), unknown.end());
    }
  }
  if (any) c.SetOutputData(0, std::move(content));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  const Shape& shape = outputs.shape(0);
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), c.node().GetInt("axis", 1), shape.rank()));
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, outputs.dtype(0), shape));
  const int64_t outer = shape.num_elements(0, axis);
  const int64_t row = shape.num_elements(axis, shape.rank());
  int64_t at = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    QUERN_ASSIGN_OR_RETURN(const ElementInput part, ElementInput::Make(c, i));
    const int64_t count = part.shape().num_elements(axis, shape.rank());
    QUERN_RETURN_IF_ERROR(DispatchElements(outputs.dtype(0), [&]<typename T>() {
      for (int64_t o = 0; o < outer; ++o) std::copy_n(part.data<T>() + o * count, count, out.data<T>() + o * row + at);
      return OkStatus();
    }));
    at += count;
  }
  return out.Finish();
}

constexpr AttrSpec kAttributes1[] = {{"axis", AttrType::kInt, false, "1"}};
constexpr AttrSpec kAttributes4[] = {{"axis", AttrType::kInt, true}};
template <int kSince>
constexpr Param kInputs[] = {{"inputs", "T", AnyTypes(kSince), Arity::kVariadic}};
constexpr OpVersion kVersions[] = {{1, kInputs<1>, kOutputOfAnyType<1>, kAttributes1, Infer, Evaluate},
                                   {4, kInputs<4>, kOutputOfAnyType<4>, kAttributes4, Infer, Evaluate},
                                   {11, kInputs<11>, kOutputOfAnyType<11>, kAttributes4, Infer, Evaluate},
                                   {13, kInputs<13>, kOutputOfAnyType<13>, kAttributes4, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpConcat = {"", "Concat", kVersions};

}  // namespace quern
