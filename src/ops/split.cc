// Split: cuts the input along `axis` into parts of given or equal lengths.
#include <algorithm>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/eval_infer.h"
#include "ops/common/infer_common.h"

namespace quern {
namespace {

Status Infer(InferContext& c) {
  const std::optional<Dims> shape = c.input_shape(0);
  const int parts = c.num_outputs();
  const DType dtype = c.input_dtype(0);
  if (!shape) {
    for (int i = 0; i < parts; ++i) c.SetOutputType(i, ValueType::Tensor(dtype));
    return OkStatus();
  }
  QUERN_ASSIGN_OR_RETURN(const int axis,
                         NormalizeAxis(c.node(), c.node().GetInt("axis", 0), static_cast<int>(shape->size())));
  const Dim& extent = (*shape)[axis];
  const AxesOperand split = ReadAxes(c, "split", 1);
  Dims lengths;
  if (split.given) {
    if (split.values) {
      lengths.assign(split.values->begin(), split.values->end());
    } else {
      for (int i = 0; i < parts; ++i) lengths.push_back(Dim::Unknown());
    }
    if (static_cast<int>(lengths.size()) != parts) {
      return c.Error("split has " + std::to_string(lengths.size()) + " lengths for " + std::to_string(parts) +
                     " outputs");
    }
    Dim sum(0);
    for (const Dim& d : lengths) {
      if (d.is_constant() && d.value() < 0) return c.Error("split " + DimsToString(lengths) + " has a negative length");
      sum = sum + d;
    }
    if (sum.is_constant() && extent.is_constant() && !(sum == extent)) {
      return c.Error("split " + DimsToString(lengths) + " sums to " + sum.ToString() + ", dimension " +
                     std::to_string(axis) + " is " + extent.ToString());
    }
  } else {
    const int64_t asked = c.node().GetInt("num_outputs", parts);
    if (asked < parts || asked < 1) {
      return c.Error("num_outputs is " + std::to_string(asked) + ", the node has " + std::to_string(parts) +
                     " outputs");
    }
    // Equal parts; from operator set 18 on the last one may be smaller.
    if (c.node().opset() < 18 && extent.is_constant() && extent.value() % asked != 0) {
      return c.Error("dimension " + std::to_string(axis) + " of " + DimsToString(*shape) + " cannot be cut into " +
                     std::to_string(asked) + " equal parts");
    }
    const Dim part = Dim::CeilDiv(extent, Dim(asked));
    for (int64_t i = 0; i < parts; ++i) {
      const bool even = c.node().opset() < 18 || (!extent.is_constant() && Dim::FloorDiv(extent, Dim(asked)) == part);
      lengths.push_back(even ? part : Dim::Max(Dim(0), Dim::Min(part, extent - Dim(i) * part)));
    }
  }
  for (int i = 0; i < parts; ++i) {
    Dims out = *shape;
    out[axis] = lengths[i];
    c.SetOutputType(i, ValueType::Tensor(dtype, std::move(out)));
  }
  const std::optional<Dims> content = PropagatedInput(c, 0);
  if (!content || shape->size() != 1 || !AllConstant(lengths)) return OkStatus();
  auto part = content->begin();
  for (int i = 0; i < parts && lengths[i].value() <= content->end() - part; ++i) {
    const auto next = part + lengths[i].value();
    c.SetOutputData(i, Dims(part, next));
    part = next;
  }
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const InferredOutputs outputs, InferredOutputs::Make(c, Infer));
  QUERN_ASSIGN_OR_RETURN(const ElementInput in, ElementInput::Make(c, 0));
  const Shape& shape = in.shape();
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), c.node().GetInt("axis", 0), shape.rank()));
  const int64_t outer = shape.num_elements(0, axis);
  const int64_t row = shape.num_elements(axis, shape.rank());
  const int64_t inner = shape.num_elements(axis + 1, shape.rank());
  int64_t at = 0;
  for (int i = 0; i < c.num_outputs(); ++i) {
    const int64_t count = outputs.shape(i)[axis] * inner;
    if (c.HasOutput(i)) {
      QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, i, in.dtype(), outputs.shape(i)));
      QUERN_RETURN_IF_ERROR(DispatchElements(in.dtype(), [&]<typename T>() {
        for (int64_t o = 0; o < outer; ++o) std::copy_n(in.data<T>() + o * row + at, count, out.data<T>() + o * count);
        return OkStatus();
      }));
      QUERN_RETURN_IF_ERROR(out.Finish());
    }
    at += count;
  }
  return OkStatus();
}

constexpr AttrSpec kAttributes2[] = {{"axis", AttrType::kInt, false, "0"}, {"split", AttrType::kInts}};
constexpr AttrSpec kAttributes13[] = {{"axis", AttrType::kInt, false, "0"}};
constexpr AttrSpec kAttributes18[] = {{"axis", AttrType::kInt, false, "0"}, {"num_outputs", AttrType::kInt}};
constexpr Param kInputs13[] = {{"input", "T", AnyTypes(13)}, {"split", "", kInt64Type, Arity::kOptional}};
template <int kSince>
constexpr Param kOutputs[] = {{"outputs", "T", AnyTypes(kSince), Arity::kVariadic}};
constexpr OpVersion kVersions[] = {{2, kDataOfAnyType<2>, kOutputs<2>, kAttributes2, Infer, Evaluate},
                                   {11, kDataOfAnyType<11>, kOutputs<11>, kAttributes2, Infer, Evaluate},
                                   {13, kInputs13, kOutputs<13>, kAttributes13, Infer, Evaluate},
                                   {18, kInputs13, kOutputs<13>, kAttributes18, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSplit = {"", "Split", kVersions};

}  // namespace quern
