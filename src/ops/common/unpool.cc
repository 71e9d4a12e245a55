#include "ops/common/unpool.h"

#include "ops/common/indices.h"

namespace quern {
namespace {

// Whether each index, taken in `output`, lies in the window of its element, whatever the padding was.
bool AreInWindows(const int64_t* indices, const Shape& input, const Shape& output, const Window& w) {
  IndexCounter at(input);
  const int64_t count = input.num_elements();
  for (int64_t i = 0; i < count; ++i, at.Next()) {
    const std::optional<Shape> position = PositionOf(indices[i], output);
    if (!position) return false;
    for (int d = 0; d < output.rank(); ++d) {
      const std::optional<int64_t> start = CheckedMul(at.index()[d], d < 2 ? int64_t{1} : w.strides[d - 2]);
      const int64_t reach = d < 2 ? 0 : w.kernel[d - 2].value() - 1;
      if (!start || (*position)[d] < *start - reach || (*position)[d] - reach > *start) return false;
    }
  }
  return true;
}

}  // namespace

Result<Dims> UnpooledDims(const Node& node, const Dims& x) {
  QUERN_ASSIGN_OR_RETURN(const Window w, ReadWindow(node, static_cast<int>(x.size()) - 2, std::nullopt));
  Dims shape = {x[0], x[1]};
  for (int d = 0; d < w.rank(); ++d) {
    shape.push_back((x[2 + d] - 1) * w.strides[d] + w.kernel[d] - w.pads_begin[d] - w.pads_end[d]);
  }
  return shape;
}

std::optional<Shape> PositionOf(int64_t index, const Shape& shape) {
  if (index < 0 || index >= shape.num_elements()) return std::nullopt;
  Shape position = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    position[d] = index % shape[d];
    index /= shape[d];
  }
  return position;
}

Result<UnpoolShapes> UnpoolShapes::Make(const Node& node, const Shape& x, const Shape& output, bool output_given) {
  UnpoolShapes s;
  s.input_ = x;
  s.output_ = s.implied_ = output;
  if (!output_given) return s;
  QUERN_ASSIGN_OR_RETURN(s.window_, ReadWindow(node, output.rank() - 2, std::nullopt));
  QUERN_ASSIGN_OR_RETURN(const Dims implied, UnpooledDims(node, Dims(x.begin(), x.end())));
  s.may_be_implied_ = true;
  for (int d = 0; d < output.rank(); ++d) {
    const bool fits = implied[d].is_constant() && implied[d].value() >= 0 && implied[d].value() <= output[d];
    s.may_be_implied_ = s.may_be_implied_ && fits;
    if (fits) s.implied_[d] = implied[d].value();
  }
  return s;
}

const Shape& UnpoolShapes::CountedIn(const int64_t* indices) const {
  return may_be_implied_ && !AreInWindows(indices, input_, output_, window_) ? implied_ : output_;
}

}  // namespace quern
