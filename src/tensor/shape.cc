#include "tensor/shape.h"

namespace quern {

std::string Shape::ToString() const {
  std::string s = "[";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) s += ',';
    s += std::to_string(dims_[i]);
  }
  return s + "]";
}

std::optional<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  Shape out = Shape::Filled(a.rank() > b.rank() ? a.rank() : b.rank(), 1);
  for (int i = 0; i < out.rank(); ++i) {
    const int ia = i - (out.rank() - a.rank()), ib = i - (out.rank() - b.rank());
    const int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    if (da != db && da != 1 && db != 1) return std::nullopt;
    out[i] = da == 1 ? db : da;
  }
  return out;
}

Shape BroadcastStrides(const Shape& shape, const Shape& strides, const Shape& to) {
  Shape out = Shape::Filled(to.rank(), 0);
  const int lead = to.rank() - shape.rank();
  for (int i = 0; i < shape.rank(); ++i) out[lead + i] = shape[i] == 1 ? 0 : strides[i];
  return out;
}

}  // namespace quern
