// What a position of a GridSample reads along each dimension of the image: modes, padding, corners.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/common/interpolation.h"
#include "ops/op.h"

namespace quern {

enum class GridMode : uint8_t { kNearest, kLinear, kCubic };
enum class GridPadding : uint8_t { kZeros, kBorder, kReflection };

struct GridAttributes {
  GridMode mode = GridMode::kLinear;
  GridPadding padding = GridPadding::kZeros;
  bool align_corners = false;
};

Result<GridAttributes> ReadGridAttributes(const Node& node);

// One spatial dimension of the image: where positions are inside, from its first element's centre (or outer edge) to
// the last one's.
struct GridAxis {
  int64_t extent;
  double low, high;

  GridAxis(int64_t n, bool align_corners)
      : extent(n), low(align_corners ? 0 : -0.5), high(static_cast<double>(n) - (align_corners ? 1 : 0.5)) {}
  bool IsOutside(double x) const { return x < low || x > high; }
  double Clamped(double x) const { return std::clamp(x, 0.0, static_cast<double>(extent) - 1); }
  // x mirrored at the borders until it is inside.
  double Reflected(double x) const {
    const double range = high - low;
    if (!(range > 0)) return low;
    const double t = std::fabs(std::fmod(x - low, 2 * range));
    return low + (t > range ? 2 * range - t : t);
  }
};

// Adds the element at the whole number x, or what the padding puts there.
inline void AddGridTap(const GridAttributes& a, const GridAxis& axis, double x, double weight, AxisTaps& taps) {
  if (a.padding == GridPadding::kZeros && !(x >= 0 && x < static_cast<double>(axis.extent))) return;
  if (a.padding == GridPadding::kReflection && axis.IsOutside(x)) x = axis.Reflected(x);
  taps.Add(static_cast<int64_t>(axis.Clamped(x)), weight);
}

// The taps for a grid value. The position is computed in the grid's type, as other runtimes do: which of two neighbours
// is nearest may depend on it.
template <typename G>
AxisTaps GridTaps(const GridAttributes& a, const GridAxis& axis, G value) {
  const G n = static_cast<G>(axis.extent);
  const G position = a.align_corners ? (value + 1) / 2 * (n - 1) : ((value + 1) * n - 1) / 2;
  double x = static_cast<double>(a.mode == GridMode::kNearest ? std::nearbyint(position) : position);
  if (a.padding == GridPadding::kReflection && axis.IsOutside(x)) x = axis.Reflected(x);
  AxisTaps taps;
  if (!std::isfinite(x)) {  // NaN, or without an end to reflect from
    if (a.padding == GridPadding::kZeros) return taps;
    x = a.padding == GridPadding::kBorder && !std::isnan(x) ? axis.Clamped(x) : 0;
  }
  const double floor = std::floor(x), t = x - floor;
  switch (a.mode) {
    case GridMode::kNearest:
      AddGridTap(a, axis, x, 1, taps);
      break;
    case GridMode::kLinear:
      AddGridTap(a, axis, floor, 1 - t, taps);
      AddGridTap(a, axis, floor + 1, t, taps);
      break;
    case GridMode::kCubic:
      for (int i = -1; i <= 2; ++i) AddGridTap(a, axis, floor + i, CubicWeight(-0.75, t - i), taps);
      break;
  }
  return taps;
}

}  // namespace quern
