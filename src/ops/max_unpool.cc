// MaxUnpool: the elements that MaxPool chose, put back where they stood, zeros elsewhere.
#include <algorithm>
#include <string>

#include "ops/common/any_types.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/type_sets.h"
#include "ops/common/unpool.h"
#include "ops/common/view.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> x = c.input_shape(0), indices = c.input_shape(1);
  if (x && x->size() < 3) {
    return c.Error("input '" + c.node().input(0)->name() + "' has shape " + DimsToString(*x) +
                   "; a batch, a channel and at least one spatial dimension are needed");
  }
  bool same = !x || !indices || x->size() == indices->size();
  for (size_t d = 0; same && x && indices && d < x->size(); ++d) {
    same = !(*x)[d].is_constant() || !(*indices)[d].is_constant() || (*x)[d] == (*indices)[d];
  }
  if (!same) {
    return c.Error("input and indices have the shapes " + DimsToString(*x) + " and " + DimsToString(*indices) +
                   "; they must be the same");
  }
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (x) {
    QUERN_ASSIGN_OR_RETURN(type.shape, UnpooledDims(c.node(), *x));
  }
  if (c.HasInput(2)) {
    const std::optional<Dims> given = c.input_data(2);
    const std::optional<int64_t> length = given ? static_cast<int64_t>(given->size()) : KnownLength(c, 2);
    if (x && length && *length != static_cast<int64_t>(x->size())) {
      return c.Error("output_shape has " + std::to_string(*length) + " elements for an input of shape " +
                     DimsToString(*x));
    }
    if (given) {
      type.shape = given;
    } else if (length || x) {
      type.shape = UnknownDims(length ? *length : static_cast<int64_t>(x->size()));
    }
  }
  c.SetOutputType(0, std::move(type));
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const ElementInput x, ElementInput::Make(c, 0));
  const Tensor& indices = c.input(1);
  const Shape& shape = outputs.shape(0);
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, x.dtype(), shape));
  QUERN_ASSIGN_OR_RETURN(const UnpoolShapes shapes, UnpoolShapes::Make(c.node(), x.shape(), shape, c.HasInput(2)));
  const Shape& counted = shapes.CountedIn(indices.data<int64_t>());
  const Shape strides = shape.ContiguousStrides();
  QUERN_RETURN_IF_ERROR(DispatchElements(x.dtype(), [&]<typename T>() -> Status {
    std::fill_n(out.data<T>(), out.num_elements(), T{});
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const int64_t index = indices.data<int64_t>()[i];
      const std::optional<Shape> position = PositionOf(index, counted);
      if (!position) {
        return c.Error("index " + std::to_string(index) + " is outside a tensor of shape " + counted.ToString());
      }
      int64_t offset = 0;
      for (int d = 0; d < shape.rank(); ++d) offset += (*position)[d] * strides[d];
      out.data<T>()[offset] = x.data<T>()[i];
    }
    return OkStatus();
  }));
  return out.Finish();
}

constexpr AttrSpec kAttributes[] = {
    {"kernel_shape", AttrType::kInts, true}, {"pads", AttrType::kInts}, {"strides", AttrType::kInts}};
template <int kSince>
constexpr TypeSet kTypes = kSince < 22 ? kOldFloatTypes : kFloatTypes;
template <int kSince>
constexpr Param kInputs[] = {
    {"X", "T1", kTypes<kSince>}, {"I", "T2", kInt64Type}, {"output_shape", "T2", kInt64Type, Arity::kOptional}};
template <int kSince>
constexpr Param kOutputs[] = {{"output", "T1", kTypes<kSince>}};
constexpr OpVersion kVersions[] = {{9, kInputs<9>, kOutputs<9>, kAttributes, Infer, Evaluate},
                                   {11, kInputs<11>, kOutputs<11>, kAttributes, Infer, Evaluate},
                                   {22, kInputs<22>, kOutputs<22>, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpMaxUnpool = {"", "MaxUnpool", kVersions};

}  // namespace quern
