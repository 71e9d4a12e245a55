#include "ops/common/slice_part.h"

#include <algorithm>
#include <vector>

#include "ops/common/infer_common.h"

namespace quern {

SliceRange SelectRange(int64_t extent, int64_t start, int64_t end, int64_t step) {
  auto wrap = [&](int64_t i) { return i < 0 ? (i < -extent ? -1 : i + extent) : i; };
  if (step > 0) {
    const int64_t from = std::clamp(wrap(start), int64_t{0}, extent), to = std::clamp(wrap(end), int64_t{0}, extent);
    // (to - from - 1) / step + 1 cannot overflow, unlike a division rounded up.
    return {from, step, to > from ? (to - from - 1) / step + 1 : 0};
  }
  // A bound below -extent stands before the first element.
  const int64_t from = std::min(wrap(start), extent - 1), to = std::clamp(wrap(end), int64_t{-1}, extent - 1);
  if (from <= to) return {0, step, 0};
  return {from, step,
          static_cast<int64_t>(static_cast<uint64_t>(from - to - 1) / (~static_cast<uint64_t>(step) + 1)) + 1};
}

Result<SlicePart> SelectPart(const Node& node, const Shape& shape, const SliceOperands& o) {
  const size_t count = o.starts.size();
  if (o.ends.size() != count || (o.has_axes && o.axes.size() != count) ||
      (!o.steps.empty() && o.steps.size() != count)) {
    return InvalidArgument(node.Describe() + ": starts, ends, axes and steps have different lengths");
  }
  SlicePart part{shape, shape.ContiguousStrides(), 0};
  Shape taken = Shape::Filled(shape.rank(), 0);
  for (size_t i = 0; i < count; ++i) {
    const int64_t given = o.has_axes ? o.axes[i] : static_cast<int64_t>(i), step = o.steps.empty() ? 1 : o.steps[i];
    QUERN_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(node, given, shape.rank()));
    if (taken[axis]++ != 0) {
      return InvalidArgument(node.Describe() + ": axis " + std::to_string(given) + " is given twice");
    }
    if (step == 0) return InvalidArgument(node.Describe() + ": a step of 0 selects nothing");
    const SliceRange range = SelectRange(shape[axis], o.starts[i], o.ends[i], step);
    part.offset += range.start * part.strides[axis];
    part.shape[axis] = range.count;
    // With one element or none the step is not taken (and could overflow).
    part.strides[axis] = range.count > 1 ? part.strides[axis] * range.step : 0;
  }
  return part;
}

}  // namespace quern
