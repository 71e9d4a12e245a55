// Values between the elements of a plane: for each dimension the positions that are read, and their weights.
#pragma once

#include <array>
#include <cmath>

#include "tensor/shape.h"

namespace quern {

// What a sampled position reads along one dimension: at most four elements. Those outside are left out by the caller.
struct AxisTaps {
  int count = 0;
  std::array<int64_t, 4> index{};
  std::array<double, 4> weight{};

  // A position that is there already gets the weight on top; a weight of 0 reads nothing.
  void Add(int64_t position, double w) {
    if (w == 0) return;
    for (int i = 0; i < count; ++i) {
      if (index[i] == position) {
        weight[i] += w;
        return;
      }
    }
    index[count] = position;
    weight[count++] = w;
  }
};

// Linear interpolation at `position`, with zeros around the `extent` elements.
inline AxisTaps LinearTapsInside(double position, int64_t extent) {
  AxisTaps taps;
  const double floor = std::floor(position), last = static_cast<double>(extent) - 1;
  if (floor >= 0 && floor <= last) taps.Add(static_cast<int64_t>(floor), 1 - (position - floor));
  if (floor + 1 >= 0 && floor + 1 <= last) taps.Add(static_cast<int64_t>(floor) + 1, position - floor);
  return taps;
}

// Weight of an element at `distance` in cubic convolution (Keys): a is -0.75 or -0.5.
inline double CubicWeight(double a, double distance) {
  const double d = std::fabs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

// `sum` plus the weighted elements of all combinations of the dimensions' taps: at(offset) gives an element as Acc.
template <typename Acc, typename F>
Acc SumOfTaps(const AxisTaps* taps, const Shape& strides, Acc sum, F at) {
  const int rank = strides.rank();
  for (int d = 0; d < rank; ++d) {
    if (taps[d].count == 0) return sum;
  }
  std::array<int, kMaxRank> tap{};
  for (;;) {
    int64_t offset = 0;
    double weight = 1;
    for (int d = 0; d < rank; ++d) {
      offset += taps[d].index[tap[d]] * strides[d];
      weight *= taps[d].weight[tap[d]];
    }
    sum += at(offset) * weight;
    int d = rank - 1;
    while (d >= 0 && ++tap[d] == taps[d].count) tap[d--] = 0;
    if (d < 0) return sum;
  }
}

}  // namespace quern
