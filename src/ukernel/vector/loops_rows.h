// Products of few rows with a matrix that is read once where it lies: against its rows (dots), and with its rows summed
// by weights. As plain vectors: the compiler makes them what the including file's flags have.
#pragma once

#include <cstddef>
#include <utility>

#include "ukernel/fold/fold_lines.h"
#include "ukernel/vector.h"

namespace quern::ukernel {
namespace {

using RowLanes = typename LanesOf<float>::Type;
constexpr size_t kRowLanes = sizeof(RowLanes) / sizeof(float);
constexpr size_t kQuad = 4;  // chains of multiply-adds that a CPU needs at least

// a and b hold segments of kWidth lanes. Their halves added, those of a first: twice as many segments, of half as many
// lanes each, which hold the same sums.
template <size_t kWidth, size_t... kLane>
void HalveSegments(const RowLanes& a, const RowLanes& b, RowLanes& to, std::index_sequence<kLane...>) {
  constexpr auto from = [](size_t lane, size_t half) {
    const size_t in = lane % (kRowLanes / 2), segment = in / (kWidth / 2), at = in % (kWidth / 2);
    return static_cast<int>((lane < kRowLanes / 2 ? 0 : kRowLanes) + segment * kWidth + half * (kWidth / 2) + at);
  };
  to = __builtin_shufflevector(a, b, from(kLane, 0)...) + __builtin_shufflevector(a, b, from(kLane, 1)...);
}
template <size_t kWidth>
void HalveSegments(const RowLanes& a, const RowLanes& b, RowLanes& to) {
  HalveSegments<kWidth>(a, b, to, std::make_index_sequence<kRowLanes>());
}

// The dots of kCount rows of z, for each row of x a segment of kRowLanes / kCount lanes whose sum is the dot.
template <size_t kRows, size_t kCount>
void SumSegments(const DotRowsArgs& a, const float* x, const float* z, size_t whole, RowLanes (&sums)[kRows]) {
  if constexpr (kCount == kQuad) {
    RowLanes s[kRows][kQuad];
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t j = 0; j < kQuad; ++j) Fill(s[r][j], 0.0f);
    }
    for (size_t d = 0; d < whole; d += kRowLanes) {
      RowLanes u[kRows];
      for (size_t r = 0; r < kRows; ++r) Load(x + static_cast<ptrdiff_t>(r) * a.x_pitch + d, u[r]);
      for (size_t j = 0; j < kQuad; ++j) {
        RowLanes v;
        Load(z + static_cast<ptrdiff_t>(j) * a.z_pitch + d, v);
        for (size_t r = 0; r < kRows; ++r) s[r][j] += u[r] * v;
      }
    }
    for (size_t r = 0; r < kRows; ++r) {
      RowLanes first, second;
      HalveSegments<kRowLanes>(s[r][0], s[r][1], first);
      HalveSegments<kRowLanes>(s[r][2], s[r][3], second);
      HalveSegments<kRowLanes / 2>(first, second, sums[r]);
    }
  } else {
    constexpr size_t kHalf = kCount / 2;
    RowLanes first[kRows], second[kRows];
    SumSegments<kRows, kHalf>(a, x, z, whole, first);
    SumSegments<kRows, kHalf>(a, x, z + static_cast<ptrdiff_t>(kHalf) * a.z_pitch, whole, second);
    for (size_t r = 0; r < kRows; ++r) HalveSegments<kRowLanes / kHalf>(first[r], second[r], sums[r]);
  }
}

inline float DotOfEnds(const float* x, const float* z, size_t begin, size_t end) {
  float sum = 0;
  for (size_t d = begin; d < end; ++d) sum += x[d] * z[d];
  return sum;
}

template <size_t kRows>
void DotSomeRows(const DotRowsArgs& a, const float* x, float* y) {
  const size_t whole = a.n / kRowLanes * kRowLanes;
  size_t j = 0;
  const float* z = a.z;
  for (; j + kRowLanes <= a.count; j += kRowLanes, z += static_cast<ptrdiff_t>(kRowLanes) * a.z_pitch) {
    RowLanes sums[kRows];
    SumSegments<kRows, kRowLanes>(a, x, z, whole, sums);
    for (size_t r = 0; r < kRows; ++r) {
      if (whole < a.n) {
        float ends[kRowLanes];
        for (size_t i = 0; i < kRowLanes; ++i) {
          ends[i] = DotOfEnds(x + static_cast<ptrdiff_t>(r) * a.x_pitch, z + static_cast<ptrdiff_t>(i) * a.z_pitch,
                              whole, a.n);
        }
        RowLanes rest;
        Load(ends, rest);
        sums[r] += rest;
      }
      Store(y + static_cast<ptrdiff_t>(r) * a.y_pitch + j, sums[r] * a.scale);
    }
  }
  for (; j < a.count; ++j, z += a.z_pitch) {
    for (size_t r = 0; r < kRows; ++r) {
      const float* row = x + static_cast<ptrdiff_t>(r) * a.x_pitch;
      RowLanes sum;
      Fill(sum, 0.0f);
      for (size_t d = 0; d < whole; d += kRowLanes) {
        RowLanes u, v;
        Load(row + d, u);
        Load(z + d, v);
        sum += u * v;
      }
      const float dot = JoinLanes<float, FoldKind::kSum>(sum) + DotOfEnds(row, z, whole, a.n);
      y[static_cast<ptrdiff_t>(r) * a.y_pitch + static_cast<ptrdiff_t>(j)] = dot * a.scale;
    }
  }
}

// Calls f<kRows>(first row) for pieces of at most 4 rows.
template <class F>
void ForRowPieces(size_t rows, F f) {
  size_t r = 0;
  for (; r + 4 <= rows; r += 4) f(std::integral_constant<size_t, 4>(), static_cast<ptrdiff_t>(r));
  if (r + 2 <= rows) {
    f(std::integral_constant<size_t, 2>(), static_cast<ptrdiff_t>(r));
    r += 2;
  }
  if (r < rows) f(std::integral_constant<size_t, 1>(), static_cast<ptrdiff_t>(r));
}

void RunDotRows(const DotRowsArgs& a) {
  ForRowPieces(a.rows, [&](auto rows, ptrdiff_t r) {
    DotSomeRows<decltype(rows)::value>(a, a.x + r * a.x_pitch, a.y + r * a.y_pitch);
  });
}

// kVectors of the columns from d on. Where these are few sums, those of neighbouring rows of z go side by side.
template <size_t kRows, size_t kVectors>
void SumColumns(const SumRowsArgs& a, const float* w, float* y, size_t d) {
  constexpr size_t kSums = kRows * kVectors, kSide = kSums >= kQuad ? 1 : kQuad / kSums;
  RowLanes s[kSide][kRows][kVectors];
  for (size_t i = 0; i < kSide; ++i) {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t c = 0; c < kVectors; ++c) Fill(s[i][r][c], 0.0f);
    }
  }
  const float* z = a.z + d;
  const auto add = [&](size_t j, size_t i) {
    RowLanes v[kVectors];
    for (size_t c = 0; c < kVectors; ++c) Load(z + c * kRowLanes, v[c]);
    for (size_t r = 0; r < kRows; ++r) {
      const float weight = w[static_cast<ptrdiff_t>(r) * a.w_pitch + static_cast<ptrdiff_t>(j)];
      for (size_t c = 0; c < kVectors; ++c) s[i][r][c] += v[c] * weight;
    }
    z += a.z_pitch;
  };
  size_t j = 0;
  for (; j + kSide <= a.count; j += kSide) {
    for (size_t i = 0; i < kSide; ++i) add(j + i, i);
  }
  for (; j < a.count; ++j) add(j, 0);
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kVectors; ++c) {
      RowLanes sum = s[0][r][c];
      for (size_t i = 1; i < kSide; ++i) sum += s[i][r][c];
      Store(y + static_cast<ptrdiff_t>(r) * a.y_pitch + d + c * kRowLanes, sum);
    }
  }
}

template <size_t kRows>
void SumSomeRows(const SumRowsArgs& a, const float* w, float* y) {
  size_t d = 0;
  for (; d + 4 * kRowLanes <= a.n; d += 4 * kRowLanes) SumColumns<kRows, 4>(a, w, y, d);
  if (d + 2 * kRowLanes <= a.n) {
    SumColumns<kRows, 2>(a, w, y, d);
    d += 2 * kRowLanes;
  }
  if (d + kRowLanes <= a.n) {
    SumColumns<kRows, 1>(a, w, y, d);
    d += kRowLanes;
  }
  if (d == a.n) return;
  for (size_t r = 0; r < kRows; ++r) {
    float sums[kRowLanes] = {};
    const float* z = a.z;
    for (size_t j = 0; j < a.count; ++j, z += a.z_pitch) {
      const float weight = w[static_cast<ptrdiff_t>(r) * a.w_pitch + static_cast<ptrdiff_t>(j)];
      for (size_t e = d; e < a.n; ++e) sums[e - d] += z[e] * weight;
    }
    for (size_t e = d; e < a.n; ++e) {
      y[static_cast<ptrdiff_t>(r) * a.y_pitch + static_cast<ptrdiff_t>(e)] = sums[e - d];
    }
  }
}

void RunSumRows(const SumRowsArgs& a) {
  ForRowPieces(a.rows, [&](auto rows, ptrdiff_t r) {
    SumSomeRows<decltype(rows)::value>(a, a.w + r * a.w_pitch, a.y + r * a.y_pitch);
  });
}

}  // namespace
}  // namespace quern::ukernel
