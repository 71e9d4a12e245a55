// Regions of RoiAlign along one dimension of a map: bins, and the points that are read in each.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/op.h"

namespace quern {

inline constexpr int64_t kMostRoiSamples = 1 << 10;  // more points for one bin than any map has pixels for

struct RoiAttributes {
  bool max = false, half_pixel = false;
  int64_t height = 1, width = 1, sampling_ratio = 0;
  float spatial_scale = 1;
};

// Attributes of a RoiAlign node, checked.
Result<RoiAttributes> ReadRoiAttributes(const Node& node);

// A point read along one dimension: two neighbours and the second one's weight.
template <typename T>
struct RoiPoint {
  int64_t low, high;
  T high_weight;
};

// Bins of one region along one dimension of `extent` elements.
template <typename T>
struct RoiAxis {
  T start, bin;
  int64_t points = 0;  // of one bin
  int64_t extent;

  RoiAxis(const RoiAttributes& a, T begin, T end, int64_t bins, int64_t n) : extent(n) {
    const T scale = static_cast<T>(a.spatial_scale), shift = static_cast<T>(a.half_pixel ? 0.5 : 0);
    start = begin * scale - shift;
    T size = (end * scale - shift) - start;
    if (!a.half_pixel) size = std::max(size, T{1});
    bin = size / static_cast<T>(bins);
    if (a.sampling_ratio > 0) {
      points = a.sampling_ratio;
    } else if (bin > 0 && std::isfinite(bin) && std::isfinite(start)) {
      points = static_cast<int64_t>(std::min(std::ceil(bin), static_cast<T>(int64_t{1} << 40)));
    }
  }

  // Calls f(point) for the points of a bin that are inside the map; true when there are any beyond it, which read 0.
  template <typename F>
  bool ForEachPoint(int64_t index, F f) const {
    bool outside = false;
    const T first = start + static_cast<T>(index) * bin, count = static_cast<T>(points);
    // A large region has more points than the map has room for: those that are far outside are not visited.
    int64_t from = 0, to = points;
    if (points > kMostRoiSamples) {
      const double step = static_cast<double>(bin / count), origin = static_cast<double>(first);
      const double last = static_cast<double>(points);
      from = static_cast<int64_t>(std::clamp((-1 - origin) / step - 2, 0.0, last));
      to = static_cast<int64_t>(std::clamp((static_cast<double>(extent) - origin) / step + 2, 0.0, last));
      outside = from > 0 || to < points;
    }
    for (int64_t i = from; i < to; ++i) {
      T at = first + (static_cast<T>(i) + T{0.5}) * bin / count;
      if (!(at >= -1 && at <= static_cast<T>(extent)) || extent == 0) {
        outside = true;
        continue;
      }
      at = std::max(at, T{0});
      const int64_t low = std::min(static_cast<int64_t>(at), extent - 1);
      const bool last = low == extent - 1;
      f(RoiPoint<T>{low, last ? low : low + 1, last ? T{0} : at - static_cast<T>(low)});
    }
    return outside;
  }
};

}  // namespace quern
