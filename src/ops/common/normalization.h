// What the normalizations share: moments in double, checks of per-channel parameters.
#pragma once

#include <cmath>

#include "ops/common/float_io.h"
#include "ops/common/infer_common.h"

namespace quern {

struct Moments {
  double mean, variance;  // population variance
};
// Moments of `count` contiguous elements, in two passes.
template <typename T>
Moments MomentsOf(const T* x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(count);
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double d = static_cast<double>(x[i]) - mean;
    squares += d * d;
  }
  return {mean, squares / static_cast<double>(count)};
}

// An error when input i is known not to be a vector of `extent` elements.
Status CheckVector(const InferContext& context, int i, const Dim& extent);
// Output 0 is of input 0's type; inputs [1, last] are vectors over dimension 1 of input 0.
Status InferPerChannel(InferContext& context, int last);
// Output 0 is of input 0's type; input 1, where given, is a bias, a vector over the last dimension of input 0.
Status InferBiased(InferContext& context);

// Input 0 of LayerNormalization and its relatives as rows: [rows, count], `axis` being the first normalized dimension.
struct NormRows {
  int axis;
  int64_t rows, count;
};
Result<NormRows> MakeNormRows(const Node& node, const Shape& shape);
// An error when input i does not broadcast to the shape of input 0.
Status CheckBroadcastsToInput(const InferContext& context, int i);
// Input i repeated to `shape` from `axis` on when it only spans those dimensions, else to all of `shape`: the element
// for position p of row r is values[(whole ? r * count : 0) + p].
template <typename T>
struct NormParameter {
  std::vector<T> values;
  bool whole = false;

  explicit operator bool() const { return !values.empty(); }
  T At(int64_t row, int64_t position, int64_t count) const { return values[(whole ? row * count : 0) + position]; }
};
template <typename T>
Result<NormParameter<T>> ReadNormParameter(EvalContext& c, int i, const Shape& shape, const NormRows& rows) {
  NormParameter<T> parameter;
  QUERN_ASSIGN_OR_RETURN(const FloatInput<T> in, ReadFloats<T>(c, i));
  if (!in) return parameter;
  parameter.whole = in.shape().rank() > shape.rank() - rows.axis;
  const Shape target = parameter.whole ? shape : Shape(shape.span().subspan(rows.axis));
  const Shape strides = BroadcastStrides(in.shape(), in.shape().ContiguousStrides(), target);
  parameter.values.resize(static_cast<size_t>(target.num_elements()));
  for (int64_t e = 0; e < target.num_elements(); ++e) {
    int64_t rest = e, at = 0;
    for (int d = target.rank() - 1; d >= 0; rest /= target[d], --d) at += rest % target[d] * strides[d];
    parameter.values[e] = in[at];
  }
  return parameter;
}

}  // namespace quern
