// SplitToSequence: cuts the input along `axis` into a sequence of parts.
#include <algorithm>

#include "ops/common/infer_common.h"
#include "ops/common/sequences.h"

namespace quern {
namespace {

// Parts lose the axis: of length 1 each, and asked for by keepdims = 0, which a `split` overrides.
bool DropsAxis(const Node& node) { return node.input(1) == nullptr && node.GetInt("keepdims", 1) == 0; }

Status Infer(InferContext& c) {
  ValueType part = ValueType::Tensor(c.input_dtype(0), c.input_shape(0));
  if (part.shape) {
    QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), c.node().GetInt("axis", 0), part.rank()));
    if (DropsAxis(c.node())) {
      part.shape->erase(part.shape->begin() + axis);
    } else {
      (*part.shape)[axis] = c.HasInput(1) ? Dim::Unknown() : Dim(1);
    }
  }
  c.SetOutputType(0, SequenceOf(std::move(part)));
  return OkStatus();
}

// The length of each part of an axis of `extent`.
Result<std::vector<int64_t>> Lengths(EvalContext& c, int64_t extent) {
  std::vector<int64_t> split = {1};
  if (c.HasInput(1)) {
    QUERN_ASSIGN_OR_RETURN(split, ReadInts(c, 1));
  }
  if (c.HasInput(1) && c.input(1).rank() > 0) {
    if (c.input(1).rank() > 1) return c.Error("split has rank " + std::to_string(c.input(1).rank()) + ", at most 1");
    int64_t left = extent;
    for (int64_t length : split) {
      if (length < 0) return c.Error("split has the negative length " + std::to_string(length));
      left = length > left ? -1 : left - length;
      if (left < 0) break;
    }
    if (left != 0) return c.Error("the lengths of split do not sum to " + std::to_string(extent));
    return split;
  }
  const int64_t length = split[0];
  if (length <= 0) return c.Error("split is " + std::to_string(length) + ", it must be above 0");
  const int64_t count = extent / length + (extent % length != 0);
  if (count > c.limits().loop_iterations) {  // an empty tensor may have any extent
    return ResourceExhausted(c.node().Describe() + ": " + std::to_string(count) + " parts, more than the limit of " +
                             std::to_string(c.limits().loop_iterations));
  }
  std::vector<int64_t> lengths(static_cast<size_t>(count), length);
  if (extent % length != 0) lengths.back() = extent % length;
  return lengths;
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const ElementInput in, ElementInput::Make(c, 0));
  Shape shape = in.shape();
  QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.node(), c.node().GetInt("axis", 0), shape.rank()));
  QUERN_ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, Lengths(c, shape[axis]));
  const int64_t outer = shape.num_elements(0, axis), row = shape.num_elements(axis, shape.rank());
  const int64_t inner = shape.num_elements(axis + 1, shape.rank());
  ValueSequence parts;
  parts.reserve(lengths.size());
  int64_t at = 0;
  for (int64_t length : lengths) {
    shape[axis] = length;
    Shape part = shape;
    if (DropsAxis(c.node())) part.erase(axis);
    QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::MakePart(c, in.dtype(), part));
    const int64_t count = length * inner;
    QUERN_RETURN_IF_ERROR(DispatchElements(in.dtype(), [&]<typename T>() {
      for (int64_t o = 0; o < outer; ++o) std::copy_n(in.data<T>() + o * row + at, count, out.data<T>() + o * count);
      return OkStatus();
    }));
    parts.push_back(out.Take());
    at += count;
  }
  c.SetOutput(0, Value::Sequence(std::move(parts)));
  return OkStatus();
}

constexpr AttrSpec kAttributes[] = {{"axis", AttrType::kInt, false, "0"}, {"keepdims", AttrType::kInt, false, "1"}};
template <int kSince>  // version 24 added bfloat16 alone
constexpr Param kInputs[] = {{"input", "T", AnyTypes(kSince)}, {"split", "I", kIndexTypes, Arity::kOptional}};
constexpr Param kOutputs[] = {{"output_sequence", "S", {}, Arity::kSingle, ValueKind::kSequence}};
constexpr OpVersion kVersions[] = {{11, kInputs<11>, kOutputs, kAttributes, Infer, Evaluate},
                                   {24, kInputs<13>, kOutputs, kAttributes, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSplitToSequence = {"", "SplitToSequence", kVersions};

}  // namespace quern
