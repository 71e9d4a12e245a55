#include "ops/common/elementwise.h"

namespace quern {

template <int N>
BroadcastRows<N>::BroadcastRows(const Shape& shape, const std::array<Shape, N>& strides) {
  empty_ = shape.num_elements() == 0;
  int rank = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    bool merges = rank > 0;
    for (int i = 0; merges && i < N; ++i) merges = strides_[rank - 1][i] == strides[i][d] * shape[d];
    if (!merges) extents_[rank++] = 1;
    extents_[rank - 1] *= shape[d];
    for (int i = 0; i < N; ++i) strides_[rank - 1][i] = strides[i][d];
  }
  if (rank == 0) return;  // one row of one element
  outer_ = rank - 1;
  length_ = extents_[outer_];
  steps_ = strides_[outer_];
}

template <int N>
bool BroadcastRows<N>::Advance(Place& at) const {
  for (int d = outer_ - 1; d >= 0; --d) {
    for (int i = 0; i < N; ++i) at.offset[i] += strides_[d][i];
    if (++at.index[d] < extents_[d]) return true;
    for (int i = 0; i < N; ++i) at.offset[i] -= strides_[d][i] * extents_[d];
    at.index[d] = 0;
  }
  return false;
}

template class BroadcastRows<2>;
template class BroadcastRows<3>;

Result<Shape> BroadcastInputs(EvalContext& c) {
  Shape shape = c.input_value(0).tensor().shape();
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (!c.HasInput(i)) continue;
    const Shape& other = c.input_value(i).tensor().shape();
    const std::optional<Shape> joined = BroadcastShapes(shape, other);
    if (!joined) return c.Error("shapes " + shape.ToString() + " and " + other.ToString() + " do not broadcast");
    shape = *joined;
  }
  return shape;
}

}  // namespace quern
