// Slice: a part of the input (common/slice_part.h).
#include <algorithm>
#include <limits>

#include "ops/common/any_types.h"
#include "ops/common/elements.h"
#include "ops/common/indices.h"
#include "ops/common/infer_common.h"
#include "ops/common/slice_part.h"

namespace quern {
namespace {

// The extent of a slice of an axis of symbolic extent; start, end and step are numbers.
Dim SelectSymbolic(const Dim& extent, int64_t start, int64_t end, int64_t step) {
  constexpr int64_t kFar = std::numeric_limits<int32_t>::max();  // exporters' "to the end"
  if (step == -1 && start == -1 && end <= -kFar) return extent;
  if (step < 1) return Dim::Unknown();
  if (step == 1 && start < 0 && end >= kFar) return start <= -kFar ? extent : Dim::Min(extent, Dim(-start));
  // A start beyond the end is not clamped: the count below is then 0 all the same.
  const Dim from = start >= 0 ? Dim(start) : start <= -kFar ? Dim(0) : Dim::Max(extent + Dim(start), Dim(0));
  const Dim to = end >= kFar    ? extent
                 : end >= 0     ? Dim::Min(extent, Dim(end))
                 : end <= -kFar ? Dim(0)
                                : Dim::Max(extent + Dim(end), Dim(0));
  if (from.is_constant(0) && step == 1) return to;
  if (from.is_constant() && from.value() >= kFar) return Dim(0);
  return Dim::Max(Dim::CeilDiv(to - from, Dim(step)), Dim(0));
}

struct Operands {
  std::optional<Dims> starts, ends;
  AxesOperand axes, steps;
};

Status Infer(InferContext& c) {
  Operands o;
  if (c.node().opset() < 10) {
    auto dims = [&](const char* name) {
      const std::vector<int64_t> ints = c.node().GetInts(name);
      return Dims(ints.begin(), ints.end());
    };
    o.starts = dims("starts");
    o.ends = dims("ends");
    o.axes = ReadAxes(c, "axes", 1 << 20);
  } else {
    o.starts = c.input_data(1);
    o.ends = c.input_data(2);
    o.axes = ReadAxes(c, "axes", 3);
    o.steps = ReadAxes(c, "steps", 4);
  }
  const std::optional<Dims> shape = c.input_shape(0);
  ValueType type = ValueType::Tensor(c.input_dtype(0));
  if (!shape || (o.axes.given && !o.axes.values)) {
    if (shape) {
      type.shape = Dims();
      for (size_t i = 0; i < shape->size(); ++i) type.shape->push_back(Dim::Unknown());
    }
    c.SetOutputType(0, std::move(type));
    return OkStatus();
  }
  const int rank = static_cast<int>(shape->size());
  std::optional<size_t> count;
  for (const std::optional<size_t> n : {o.starts ? std::optional(o.starts->size()) : std::nullopt,
                                        o.ends ? std::optional(o.ends->size()) : std::nullopt,
                                        o.axes.given ? std::optional(o.axes.values->size()) : std::nullopt,
                                        o.steps.values ? std::optional(o.steps.values->size()) : std::nullopt}) {
    if (n && count && *n != *count) return c.Error("starts, ends, axes and steps have different lengths");
    if (n) count = n;
  }
  std::vector<int> axes;
  if (o.axes.given) {
    QUERN_ASSIGN_OR_RETURN(axes, NormalizeAxes(c.node(), *o.axes.values, rank));
  } else {
    if (count && *count > static_cast<size_t>(rank)) return c.Error("more starts than the input has dimensions");
    for (int i = 0; i < (count ? static_cast<int>(*count) : rank); ++i) axes.push_back(i);
  }
  Dims out = *shape;
  std::optional<SliceRange> list_range;  // of a 1-D input with a known extent
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = axes[i];
    Dim& extent = out[axis];
    const bool known = o.starts && o.ends && (!o.steps.given || o.steps.values);
    if (!known) {
      extent = Dim::Unknown();
      continue;
    }
    const Dim &start = (*o.starts)[i], &end = (*o.ends)[i];
    const int64_t step = o.steps.given ? (*o.steps.values)[i] : 1;
    if (step == 0) return c.Error("a step of 0 selects nothing");
    if (start.is_constant() && end.is_constant()) {
      if (extent.is_constant()) {
        const SliceRange range = SelectRange(extent.value(), start.value(), end.value(), step);
        if (rank == 1) list_range = range;
        extent = Dim(range.count);
      } else {
        extent = SelectSymbolic(extent, start.value(), end.value(), step);
      }
    } else if (step == 1 && start.is_non_negative() && end.is_non_negative() && extent.is_non_negative()) {
      extent = Dim::Max(Dim::Min(end, extent) - Dim::Min(start, extent), 0);
    } else {
      extent = Dim::Unknown();
    }
  }
  if (rank == 1 && axes.empty() && out[0].is_constant()) list_range = SliceRange{0, 1, out[0].value()};
  type.shape = std::move(out);
  c.SetOutputType(0, std::move(type));
  if (!list_range) return OkStatus();
  if (const std::optional<Dims> content = PropagatedInput(c, 0)) {
    Dims picked;
    for (int64_t i = 0; i < list_range->count; ++i)
      picked.push_back((*content)[list_range->start + i * list_range->step]);
    c.SetOutputData(0, std::move(picked));
  }
  return OkStatus();
}

Status Evaluate(EvalContext& c) {
  QUERN_ASSIGN_OR_RETURN(const ElementInput in, ElementInput::Make(c, 0));
  std::vector<int64_t> starts, ends, axes, steps;
  bool has_axes = false;
  if (c.node().opset() < 10) {
    starts = c.node().GetInts("starts");
    ends = c.node().GetInts("ends");
    has_axes = c.node().attributes().contains("axes");
    axes = c.node().GetInts("axes");
  } else {
    QUERN_ASSIGN_OR_RETURN(starts, ReadInts(c, 1));
    QUERN_ASSIGN_OR_RETURN(ends, ReadInts(c, 2));
    has_axes = c.HasInput(3);
    if (has_axes) {
      QUERN_ASSIGN_OR_RETURN(axes, ReadInts(c, 3));
    }
    if (c.HasInput(4)) {
      QUERN_ASSIGN_OR_RETURN(steps, ReadInts(c, 4));
    }
  }
  QUERN_ASSIGN_OR_RETURN(
      const SlicePart part,
      SelectPart(c.node(), in.shape(),
                 {.starts = starts, .ends = ends, .has_axes = has_axes, .axes = axes, .steps = steps}));
  QUERN_ASSIGN_OR_RETURN(ElementOutput out, ElementOutput::Make(c, 0, in.dtype(), part.shape));
  const int64_t n = part.shape.num_elements();
  QUERN_RETURN_IF_ERROR(DispatchElements(in.dtype(), [&]<typename T>() {
    IndexCounter at(part.shape);
    T* y = out.data<T>();
    for (int64_t i = 0; i < n; ++i, at.Next()) {
      int64_t offset = part.offset;
      for (int d = 0; d < part.shape.rank(); ++d) offset += at.index()[d] * part.strides[d];
      y[i] = in.data<T>()[offset];
    }
    return OkStatus();
  }));
  return out.Finish();
}

constexpr AttrSpec kAttributes[] = {
    {"axes", AttrType::kInts}, {"ends", AttrType::kInts, true}, {"starts", AttrType::kInts, true}};
template <int kSince>
constexpr Param kInputs[] = {{"data", "T", AnyTypes(kSince)},
                             {"starts", "Tind", kIndexTypes},
                             {"ends", "Tind", kIndexTypes},
                             {"axes", "Tind", kIndexTypes, Arity::kOptional},
                             {"steps", "Tind", kIndexTypes, Arity::kOptional}};
constexpr OpVersion kVersions[] = {{1, kDataOfAnyType<1>, kOutputOfAnyType<1>, kAttributes, Infer, Evaluate},
                                   {10, kInputs<10>, kOutputOfAnyType<10>, {}, Infer, Evaluate},
                                   {11, kInputs<11>, kOutputOfAnyType<11>, {}, Infer, Evaluate},
                                   {13, kInputs<13>, kOutputOfAnyType<13>, {}, Infer, Evaluate}};

}  // namespace

extern constinit const OpDefinition kOpSlice = {"", "Slice", kVersions};

}  // namespace quern
